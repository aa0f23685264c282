// What the pages need besides htmx: to say that the console does not answer any more.
"use strict";

const away = () => document.getElementById("away");

for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, () => { away().hidden = false; });
}
document.addEventListener("htmx:beforeSwap", () => { away().hidden = true; });
