// The editor in place of a field for a source, loaded when somebody uses the field. Until then, and without it, the field is a plain one.
"use strict";
(() => {
  const { js, css, guesses } = JSON.parse(document.querySelector("meta[name=editor]").content);
  const patterns = guesses.map(([pattern, name]) => [new RegExp(pattern, "m"), name]);
  const loads = {};
  // Sheets come before the gateway's own, whose colours are to win.
  const load = (address) => loads[address] ||= new Promise((done, failed) => {
    const sheet = address.endsWith(".css");
    const node = Object.assign(document.createElement(sheet ? "link" : "script"), sheet ? { rel: "stylesheet", href: address } : { src: address });
    node.addEventListener("load", done);
    node.addEventListener("error", failed);
    document.querySelector("link[rel=stylesheet]").before(node);
  });

  function edit(field) {
    const form = field.form;
    const languages = form.elements.language;
    const label = document.querySelector(`label[for=${CSS.escape(field.id)}]`)?.textContent.trim() || "Source";
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
    const { selectionStart, selectionEnd } = field;
    const editor = CodeMirror.fromTextArea(field, {
      mode: "text/plain", lineNumbers: true, indentUnit: 4, tabSize: 4, matchBrackets: true, autoCloseBrackets: true,
      autoRefresh: true, viewportMargin: 30, screenReaderLabel: label, extraKeys: keys, autofocus: document.activeElement === field,
    });
    editor.setSelection(editor.posFromIndex(selectionEnd), editor.posFromIndex(selectionStart), { scroll: false });
    const input = editor.getInputField();
    input.setAttribute("aria-keyshortcuts", "Control+Enter");
    for (const name of ["aria-invalid", "aria-describedby"]) if (field.hasAttribute(name)) input.setAttribute(name, field.getAttribute(name));
    editor.on("keydown", (_, event) => { if (!["Escape", "Tab", "Shift"].includes(event.key)) Object.assign(keys, inside); });
    editor.on("blur", () => { Object.assign(keys, inside); });

    async function colour() {
      const option = languages?.selectedOptions[0];
      if (option?.dataset.file) await load(option.dataset.file);
      if (option === languages?.selectedOptions[0]) editor.setOption("mode", option?.dataset.mode || "text/plain");
    }

    // A language is guessed only while nobody has chosen one.
    const hint = document.createElement("small");
    hint.setAttribute("role", "status");
    hint.className = "muted guessed";
    editor.getWrapperElement().after(hint);
    let chosen = Boolean(languages?.value);
    function guess() {
      if (chosen || !languages) return;
      const begin = editor.getValue().slice(0, 20000);
      const name = patterns.find(([pattern, name]) => pattern.test(begin) && [...languages.options].some((option) => option.value === name))?.[1] || "";
      if (languages.value === name) return;
      languages.value = name;
      colour();
      hint.textContent = name ? `It looks like ${languages.selectedOptions[0].textContent.trim()}; choose another language if it is not.` : "";
    }
    languages?.addEventListener("change", () => {
      chosen = Boolean(languages.value);
      hint.textContent = "";
      colour();
    });
    editor.on("change", guess);
    colour();
    guess();
  }

  for (const field of document.querySelectorAll("textarea.code[name=source]")) {
    const fold = field.closest("details");
    let begun = false;
    const begin = () => {
      if (begun) return;
      begun = true;
      Promise.all([load(css), load(js)]).then(() => edit(field), () => {});
    };
    field.dataset.editor = "lazy";
    field.addEventListener("focus", begin);
    fold?.addEventListener("toggle", () => { if (fold.open) begin(); });
    if (fold?.open || field.value || document.activeElement === field) begin();
  }
})();
