cat said
