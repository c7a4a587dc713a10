package servertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Try makes a request below the node's path and returns its status and the code of a refusal. err
// is set if there was no answer.
func (n *Node) Try(method, path string) (status int, code string, err error) {
	req, err := http.NewRequest(method, n.b.AgentURL()+n.path(path), nil)
	if err != nil {
		return 0, "", err
	}
	res, err := n.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	var p wire.Problem
	if err == nil && res.StatusCode/100 != 2 && json.Unmarshal(raw, &p) == nil {
		code = string(p.Code)
	}
	return res.StatusCode, code, err
}

func (n *Node) path(rest string) string { return "/internal/v1/nodes/" + n.NodeID + rest }

// must sends a request, as a node does: again while the broker cannot answer (503), which it says on a machine that
// stood still for some seconds, because its list of denied certificates is too old then.
func (n *Node) must(t testing.TB, method, path string, body, into any) {
	t.Helper()
	var status int
	var raw []byte
	Eventually(t, "an answer to "+path, func() bool {
		status, raw = n.do(t, method, path, body)
		return status != http.StatusServiceUnavailable
	})
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, raw)
	}
	if into == nil || status == http.StatusNoContent {
		return
	}
	if err := taskcatalog.DecodeStrict(raw, into); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (n *Node) do(t testing.TB, method, path string, body any) (int, []byte) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := taskcatalog.Encode(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, n.b.AgentURL()+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, raw
}
