// Where the page gets its document from: a report contains it; otherwise the server that sent the page has it.

export async function load() {
  const embedded = document.getElementById("document");
  if (embedded) return JSON.parse(embedded.textContent);
  const response = await fetch("page.json", { credentials: "same-origin" });
  if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
  return response.json();
}
