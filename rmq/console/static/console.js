// What the pages need besides htmx: to say that the console does not answer any more.
"use strict";

const say = (isAway) => { document.getElementById("away").hidden = !isAway; };

for (const name of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, () => { say(true); });
}
// Where the console is away a proxy answers for it. What that says is no part of a page, and must
// not take the place of one that asks again.
document.addEventListener("htmx:beforeSwap", (event) => {
  const isOurs = event.detail.xhr.getResponseHeader("Rmq-Console") !== null;
  say(!isOurs);
  event.detail.shouldSwap &&= isOurs;
});
