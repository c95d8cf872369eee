// The editor in place of fields for sources. Without it, or without CodeMirror, they stay plain fields.
"use strict";
(() => {
  if (!window.CodeMirror) return;
  const guesses = JSON.parse(document.querySelector("meta[name=guesses]")?.content || "[]").map(([pattern, name]) => [new RegExp(pattern, "m"), name]);

  for (const field of document.querySelectorAll("textarea.code[name=source]")) {
    const form = field.form;
    const languages = form.elements.language;
    const label = document.querySelector(`label[for=${CSS.escape(field.id)}]`)?.textContent.trim() || "Source";
    const mode = () => languages?.selectedOptions[0]?.dataset.mode || "text/plain";
    // After Escape the next Tab goes to the next field, so that the keyboard is never held here.
    const inside = {
      Tab(cm) {
        if (cm.somethingSelected()) cm.indentSelection("add");
        else cm.replaceSelection(" ".repeat(4 - (cm.getCursor().ch % 4)), "end");
      },
      "Shift-Tab": (cm) => cm.indentSelection("subtract"),
    };
    const keys = {
      ...inside,
      Esc: () => Object.assign(keys, { Tab: false, "Shift-Tab": false }),
      "Ctrl-/": (cm) => cm.toggleComment(),
      "Cmd-/": (cm) => cm.toggleComment(),
      "Ctrl-Enter": () => form.requestSubmit(),
      "Cmd-Enter": () => form.requestSubmit(),
    };
    const editor = CodeMirror.fromTextArea(field, {
      mode: mode(), lineNumbers: true, indentUnit: 4, tabSize: 4, matchBrackets: true, autoCloseBrackets: true,
      autoRefresh: true, viewportMargin: 30, screenReaderLabel: label, extraKeys: keys,
    });
    const input = editor.getInputField();
    input.setAttribute("aria-keyshortcuts", "Control+Enter");
    for (const name of ["aria-invalid", "aria-describedby"]) if (field.hasAttribute(name)) input.setAttribute(name, field.getAttribute(name));
    editor.on("keydown", (_, event) => { if (!["Escape", "Tab", "Shift"].includes(event.key)) Object.assign(keys, inside); });
    editor.on("blur", () => { Object.assign(keys, inside); });

    // A language is guessed only while nobody has chosen one.
    const hint = document.createElement("small");
    hint.setAttribute("role", "status");
    hint.className = "muted guessed";
    editor.getWrapperElement().after(hint);
    let chosen = Boolean(languages?.value);
    languages?.addEventListener("change", () => {
      chosen = Boolean(languages.value);
      hint.textContent = "";
      editor.setOption("mode", mode());
    });
    editor.on("change", () => {
      if (chosen || !languages) return;
      const begin = editor.getValue().slice(0, 20000);
      const guess = guesses.find(([pattern, name]) => pattern.test(begin) && [...languages.options].some((option) => option.value === name))?.[1] || "";
      if (languages.value === guess) return;
      languages.value = guess;
      editor.setOption("mode", mode());
      hint.textContent = guess ? `It looks like ${languages.selectedOptions[0].textContent.trim()}; choose another language if it is not.` : "";
    });
  }
})();
