(function () {
  "use strict";
  var form = document.getElementById("find");
  if (!form) return;
  var kinds = Array.from(document.querySelectorAll("details.kind")).map(function (kind) {
    return {
      element: kind,
      hits: kind.querySelector(".hits"),
      verdict: kind.dataset.verdict,
      code: kind.dataset.code,
      text: kind.querySelector("summary").textContent.toLowerCase(),
      rows: Array.from(kind.querySelectorAll("tbody tr")).map(function (row, order) {
        return { element: row, order: order, client: row.dataset.client, group: row.dataset.group, text: null };
      }),
    };
  });
  var total = kinds.reduce(function (sum, kind) { return sum + kind.rows.length; }, 0);
  var wasFiltered = false;

  function textOf(row) {
    if (row.text === null) row.text = row.element.textContent.toLowerCase();
    return row.text;
  }

  function filter() {
    var words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var verdict = form.elements.verdict.value, code = form.elements.code.value;
    var client = form.elements.client.value, group = form.elements.group.value;
    var filtered = Boolean(words.length || verdict || code || client || group);
    var matches = 0;
    kinds.forEach(function (kind) {
      var inKind = (!verdict || kind.verdict === verdict) && (!code || kind.code === code);
      var here = 0;
      kind.rows.forEach(function (row) {
        var matching = inKind && (!client || row.client === client) && (!group || row.group === group) &&
          words.every(function (word) { return kind.text.includes(word) || textOf(row).includes(word); });
        row.element.hidden = !matching;
        here += matching ? 1 : 0;
      });
      kind.element.hidden = here === 0 && filtered;
      kind.hits.textContent = filtered && here < kind.rows.length ? here + " of " : "";
      kind.here = here;
      matches += here;
    });
    if (filtered || wasFiltered) {
      kinds.forEach(function (kind) { kind.element.open = filtered && kind.here > 0 && matches <= 200; });
    }
    wasFiltered = filtered;
    form.elements.found.textContent = matches.toLocaleString("en") + " of " + total.toLocaleString("en") + " findings";
  }

  function sort(button) {
    var header = button.parentElement, table = header.closest("table");
    var column = Array.from(header.parentElement.children).indexOf(header);
    var down = header.getAttribute("aria-sort") === "ascending";
    var kind = kinds.find(function (one) { return one.element.contains(table); });
    Array.from(header.parentElement.children).forEach(function (other) { other.removeAttribute("aria-sort"); });
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    var keyed = kind.rows.map(function (row) {
      return { row: row, key: column ? row.element.children[column].textContent.trim() : row.order };
    });
    var compare = new Intl.Collator("en", { numeric: true }).compare;
    keyed.sort(function (a, b) {
      return (down ? -1 : 1) * ((column ? compare(a.key, b.key) : a.key - b.key) || a.row.order - b.row.order);
    });
    table.tBodies[0].append.apply(table.tBodies[0], keyed.map(function (one) { return one.row.element; }));
  }

  function reveal() {
    var target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest("[hidden]")) { form.reset(); filter(); }
    for (var at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  }

  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    folded.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () { folded.forEach(function (one) { one.open = false; }); });
  document.querySelectorAll(".kind th").forEach(function (header) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    button.addEventListener("click", function () { sort(button); });
    header.replaceChildren(button);
  });
  var waiting = 0;
  form.addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); });
  form.addEventListener("reset", function () { setTimeout(filter, 0); });
  window.addEventListener("hashchange", reveal);
  form.hidden = false;
  filter();
  reveal();
})();
