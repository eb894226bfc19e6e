"use strict";
const base = location.pathname.replace(/\/+$/, "");
const source = new EventSource(base + "/stream");
source.onmessage = (event) => {
  document.getElementById("last").textContent = event.data;
};
