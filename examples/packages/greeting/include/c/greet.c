const char *greeting(void) { return "{{greeting}}"; }
