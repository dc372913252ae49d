// Brings the figures of the page to life.

document.documentElement.classList.add("scripted");
document.body.append(tip);
for (const place of document.querySelectorAll("[data-figure]")) {
  const data = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  const figure = data.kind === "curves" ? CurvesFigure : LinesFigure;
  new figure(place, data);
}
addEventListener("scroll", hideTip, { passive: true });
