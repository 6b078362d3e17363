// Keeps a page up to date: listens to /live and has htmx fetch the page's changing part again.
"use strict";

(() => {
  // Milliseconds between two fetches: what comes between is fetched once, at the end. It grows while
  // something changes without a rest.
  const LEAST = 100;
  const MOST = 1600;
  const region = () => document.getElementById("live");
  const lamp = document.getElementById("lamp");
  // On a phone the menu is wider than the screen.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const first = region();
  if (!first || !lamp || !(first.dataset.topics || first.dataset.room)) return;

  const wanted = { topic: first.dataset.topics, room: first.dataset.room };
  let since = first.dataset.since; // the id of the newest event that the page knows
  let source = null;
  let fetched = 0;
  let pause = LEAST;
  let timer = 0;
  let stale = false;

  const show = (state, text) => {
    lamp.dataset.state = state;
    lamp.textContent = text;
  };

  // What somebody is just clicking on is not taken away from under the pointer.
  const pressed = () => document.querySelector("#live :active") !== null;

  const fetchNow = () => {
    timer = 0;
    pause = Date.now() - fetched < 2 * pause ? Math.min(2 * pause, MOST) : LEAST;
    fetched = Date.now();
    if (document.hidden) stale = true;
    else if (pressed()) refresh();
    else htmx.trigger("#live", "refresh");
  };

  const refresh = (least = 0) => {
    if (!timer) timer = setTimeout(fetchNow, Math.max(least, fetched + pause - Date.now(), 0));
  };

  const note = (event) => {
    if (event.lastEventId) since = event.lastEventId;
  };

  const listen = () => {
    const query = new URLSearchParams(Object.entries({ ...wanted, since }).filter(([, value]) => value));
    source = new EventSource(`/live?${query}`);
    source.onopen = () => show("live", "Live");
    source.onerror = () => {
      show("away", "Reconnecting");
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000 + Math.random() * 3000);
    };
    for (const name of ["live", "room", "presence"]) {
      source.addEventListener(name, (event) => {
        note(event);
        refresh();
      });
    }
    // Everyone is told at once, and comes one by one.
    source.addEventListener("reload", (event) => {
      note(event);
      refresh(Math.random() * 1000);
    });
    source.addEventListener("elsewhere", () => show("away", "Moving"));
    source.addEventListener("revoked", () => location.reload());
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && stale) {
      stale = false;
      refresh();
    }
  });
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => event.persisted && listen());

  // What is answered instead of this page, as the sign-in is, replaces all of it.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (target.id === "live" && pressed()) {
      event.detail.shouldSwap = false;
      refresh();
    } else if (target.id === "live" && xhr.status === 200 && !xhr.responseText.includes('id="live"')) {
      event.detail.shouldSwap = false;
      location.reload();
    }
  });

  const ids = () => new Set(Array.from(document.querySelectorAll("#live tr[id]"), (row) => row.id));
  let known = ids();
  document.addEventListener("htmx:afterSwap", () => {
    for (const row of document.querySelectorAll("#live tr[id]")) {
      if (!known.has(row.id)) row.classList.add("fresh");
    }
    known = ids();
  });

  listen();
})();
