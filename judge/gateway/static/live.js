// Live updates. Everything else on these pages works without this file.
"use strict";
(() => {
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const region = () => document.getElementById("live");
  const typing = (node) => node.contains(document.activeElement) && /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);

  // The keyboard focus stays: the element that has it is looked up in the new region by its purpose.
  // An element with another purpose never gets it: a person about to cancel must not apply.
  function place(from) {
    const active = document.activeElement;
    if (!from.contains(active)) return null;
    const purpose = (node) => node.matches("[tabindex]") ? "read" : [node.getAttribute("href"), node.form?.action, node.textContent].join(" ");
    const alike = (within) => [...within.querySelectorAll(active.tagName)].filter((node) => node.tabIndex >= 0 && purpose(node) === purpose(active));
    const nth = alike(from).indexOf(active);
    return (within) => alike(within)[nth];
  }

  // The server renders; this takes the fresh region out of the same page and keeps what is unfolded.
  async function refresh() {
    const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", headers: { "X-Live": "1" } });
    if (answer.redirected) { location.reload(); return false; }
    if (!answer.ok) return false;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    const old = region();
    if (!fresh || !old || typing(old)) return false;
    for (const node of old.querySelectorAll("details[id]")) {
      const twin = fresh.querySelector(`#${CSS.escape(node.id)}`);
      if (twin) twin.open = node.open;
    }
    if (fresh.outerHTML !== old.outerHTML) {
      const focused = place(old);
      const scrolled = [...old.querySelectorAll(".scroll, pre")].map((node) => [node.scrollLeft, node.scrollTop]);
      old.replaceWith(document.adoptNode(fresh));
      fresh.querySelectorAll(".scroll, pre").forEach((node, n) => { [node.scrollLeft, node.scrollTop] = scrolled[n] || [0, 0]; });
      focused?.(fresh)?.focus({ preventScroll: true });
    }
    document.title = page.title;
    return true;
  }

  // Submissions: a stream of events says that something has changed. Quick changes share one look.
  // A hidden page has no stream: over HTTP/1.1 a browser has six connections to a site.
  function listen() {
    const LOOKS = 300;
    let stream = null, due = 0, wait = 1000;
    const open = () => !stream && !document.hidden && region() && !region().dataset.done;
    const changed = () => { due ||= setTimeout(look, LOOKS); };
    const close = () => { stream?.close(); stream = null; };
    async function look() {
      await refresh().catch(() => false);
      due = 0;
      document.documentElement.dataset.live = "yes";
      if (!region() || region().dataset.done) close();
      else if (!stream) setTimeout(start, wait);
    }
    function start() {
      if (!open()) return;
      const { stream: address, version } = region().dataset;
      stream = new EventSource(version ? `${address}?after=${version}` : address);
      stream.addEventListener("begin", () => { wait = 1000; changed(); });
      stream.addEventListener("submission", () => { wait = 1000; changed(); });
      stream.addEventListener("lost", changed);
      // The browser opens a broken stream again by itself, and one that was refused never: then the page says why.
      stream.addEventListener("error", () => {
        if (stream?.readyState !== EventSource.CLOSED) return;
        close();
        wait = Math.min(wait * 2, 30000);
        changed();
      });
    }
    document.addEventListener("visibilitychange", () => document.hidden ? close() : start());
    start();
  }

  // Figures: look again every few seconds while somebody is looking.
  async function repeat() {
    while (region()) {
      await pause(Number(region().dataset.every) * 1000);
      const idle = region().dataset.whileOpen && !region().querySelector("[data-open=yes]");
      if (document.visibilityState === "visible" && !idle) await refresh().catch(() => false);
    }
  }

  if (region()?.dataset.stream) listen();
  else if (region()?.dataset.every) repeat();

  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // A page that could not be made: the old page and its scroll position stay until it can be.
  async function again() {
    for (;;) {
      await pause(5000);
      // An answer that leads elsewhere is one as well, and has no status here; a form is not sent a second time.
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", redirect: "manual" }).catch(() => null);
      if (answer && answer.status < 500) return location.replace(location.pathname + location.search);
    }
  }
  if (document.getElementById("again")) again();
})();
