// Browsers start no worker from file://. There, the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const base = new URL(address, location);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const load = (source) =>
        new Promise((done, failed) => {
          const script = this.frame.contentDocument.createElement("script");
          script.src = new URL(source, base);
          script.onload = done;
          script.onerror = failed;
          this.frame.contentDocument.body.append(script);
        });
      inner.importScripts = (...sources) => Promise.all(sources.map(load));
      this.ready = load(base);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
