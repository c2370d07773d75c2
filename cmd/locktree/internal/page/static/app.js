// The page works without this script. Every two seconds, the server's default interval, the script fetches the same page and replaces
// the content.
"use strict";
(() => {
  const pause = document.getElementById("pause");
  const link = document.getElementById("link");
  let paused = false, busy = false, again = false;

  const lost = "\u25b2 Connection lost: this is old";
  const say = (text) => {
    if (link.textContent !== text) link.textContent = text;
    link.className = text === lost ? "bad" : "";
  };

  // The page does not change while the user types or has selected text.
  const inUse = () => {
    const at = document.activeElement;
    const chosen = document.getSelection();
    return at && /^(INPUT|SELECT)$/.test(at.tagName) || chosen && !chosen.isCollapsed;
  };

  // place returns a function that finds the same element in the new page.
  const place = (el) => {
    if (!el || !el.closest("main")) return null;
    if (el.id === "main") return (root) => root; // the target of the link at the top
    const same = (root) => [...root.querySelectorAll(el.tagName)].filter((x) =>
      x.getAttribute("href") === el.getAttribute("href") && x.getAttribute("aria-label") === el.getAttribute("aria-label"));
    const index = same(document.querySelector("main")).indexOf(el);
    return (root) => same(root)[index] || null;
  };

  const update = async () => {
    if (paused || document.hidden || inUse()) { again = true; return; }
    if (busy) return;
    busy = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(10000) });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = next.querySelector("main");
      if (!fresh) throw new Error("no page");
      if (!paused && !inUse()) {
        const focus = place(document.activeElement);
        const scrolls = [...document.querySelectorAll("main .wide, main pre")].map((x) => x.scrollLeft);
        const news = document.getElementById("news"), said = fresh.querySelector("#news");
        document.title = next.title;
        document.querySelector("main").replaceWith(document.adoptNode(fresh));
        document.querySelectorAll("main .wide, main pre").forEach((x, i) => { x.scrollLeft = scrolls[i] || 0; });
        if (focus) { const el = focus(fresh); if (el) el.focus({ preventScroll: true }); }
        const count = (x) => x && x.querySelector("b") ? x.querySelector("b").textContent : "";
        say(count(news) !== count(said) ? count(said) : link.textContent === lost ? "" : link.textContent);
      }
    } catch {
      say(lost);
    }
    busy = false;
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    say(paused ? "Paused" : "");
    if (!paused) update();
  });
  document.addEventListener("visibilitychange", () => { if (again) update(); });
  document.addEventListener("focusout", () => setTimeout(() => { if (again) update(); }, 0));
  setInterval(update, 2000);
})();
