(function () {
  "use strict";
  var form = document.getElementById("find");
  var linked = {};
  document.querySelectorAll(".heat tbody tr").forEach(function (row) { linked[row.querySelector("a").href] = row; });
  var rows = Array.from(document.querySelectorAll("tr[data-words]")).map(function (row) {
    return {
      element: row,
      text: (row.textContent + " " + row.dataset.words).toLowerCase(),
      heat: linked[row.querySelector("a").href],
    };
  });
  var folds = Array.from(document.querySelectorAll("details.fold"));
  var wasFiltered = false;

  function filter() {
    var words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var found = 0;
    rows.forEach(function (row) {
      var matching = words.every(function (word) { return row.text.includes(word); });
      row.element.hidden = !matching;
      if (row.heat) row.heat.hidden = !matching;
      found += matching ? 1 : 0;
    });
    if (words.length || wasFiltered) {
      folds.forEach(function (fold) {
        var here = Boolean(fold.querySelector("tbody tr:not([hidden])"));
        fold.hidden = words.length > 0 && !here;
        fold.open = words.length > 0 && here;
      });
    }
    wasFiltered = words.length > 0;
    form.elements.found.textContent = found.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " captures";
  }

  var waiting = 0;
  form.addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); });
  form.hidden = false;
  filter();
})();
