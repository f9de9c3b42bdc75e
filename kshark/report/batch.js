(function () {
  "use strict";
  var form = document.getElementById("find");
  var rows = Array.from(document.querySelectorAll("tr[data-words]")).map(function (row) {
    return { element: row, text: (row.textContent + " " + row.dataset.words).toLowerCase(), heat: Boolean(row.closest(".heat")) };
  });
  var folds = Array.from(document.querySelectorAll("details.fold"));
  var total = rows.filter(function (row) { return !row.heat; }).length;
  var wasFiltered = false;

  function filter() {
    var words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var found = 0;
    rows.forEach(function (row) {
      var matching = words.every(function (word) { return row.text.includes(word); });
      row.element.hidden = !matching;
      found += matching && !row.heat ? 1 : 0;
    });
    if (words.length || wasFiltered) {
      folds.forEach(function (fold) {
        var here = Boolean(fold.querySelector("tr[data-words]:not([hidden])"));
        fold.hidden = words.length > 0 && !here;
        fold.open = words.length > 0 && here;
      });
    }
    wasFiltered = words.length > 0;
    form.elements.found.textContent = found.toLocaleString("en") + " of " + total.toLocaleString("en") + " captures";
  }

  var waiting = 0;
  form.addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); });
  form.hidden = false;
  filter();
})();
