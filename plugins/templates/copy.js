const button = document.getElementById("copy"), text = document.getElementById("json");
button.hidden = false;
button.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(text.value);
    button.textContent = "Copied";
  } catch {
    text.closest("details").open = true;
    text.focus();
    text.select();
    button.textContent = "Selected: copy with Ctrl+C";
  }
});
