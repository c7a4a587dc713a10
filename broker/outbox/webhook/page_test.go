package webhook_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The Python of docs/how-to/webhooks.md takes what the broker sends, and nothing that was changed.
func TestThePageShowsHowToVerify(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("there is no python3 (.ci/setup test installs it)")
	}
	page := must(os.ReadFile("../../../docs/how-to/webhooks.md"))(t)
	_, rest, _ := bytes.Cut(page, []byte("```python\n"))
	code, _, found := bytes.Cut(rest, []byte("```"))
	if !found {
		t.Fatal("the page has no Python")
	}
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	if err := w.sender(t, loopback(t, e)).Send(ctx, h, "id-1", map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	r := e.requests()[0]
	asks := fmt.Sprintf(`
h = {"webhook-id": %q, "webhook-timestamp": %q, "webhook-signature": "v1,other " + %q}
b, s = %q.encode(), %q
old = dict(h, **{"webhook-timestamp": str(int(h["webhook-timestamp"]) - 301)})
print(verify(s, h, b), verify(s, h, b + b" "), verify(s, dict(h, **{"webhook-id": "id-2"}), b), verify(s, old, b), verify("whsec_AAAA", h, b))
`, r.id, r.timestamp, r.signature, r.body, w.plain[h.ID]+"\n")
	program := exec.CommandContext(t.Context(), python, "-c", string(code)+asks)
	program.WaitDelay = time.Second
	out, err := program.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "True False False False False" {
		t.Errorf("it prints %s, %v", out, err)
	}
}
