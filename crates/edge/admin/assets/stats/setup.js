// What the page's markup says of it. Comes first.

const URI = document.body.dataset.uri;
const OPTIONS = document.body.dataset.options;
const MAY_ADMIN = document.body.dataset.admin === "1";
