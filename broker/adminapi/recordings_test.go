package adminapi_test

import (
	"database/sql"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
)

// If blocks of a recording disappear while it is read, the stream is aborted and does not end
// normally.
func TestARecordingThatIsNotWholeIsBrokenOff(t *testing.T) {
	s := newTerminalSite(t)
	k := s.open(s.operator, api.TerminalStart{})
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.b.Dir, "hostler.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec := func(query string) {
		t.Helper()
		if _, err := db.Exec(query, k.Terminal.ID); err != nil {
			t.Fatal(err)
		}
	}
	// More than fits on the way to a reader that does not read.
	const blocks = 48
	exec(`DELETE FROM recording_blocks WHERE session_id = $1`)
	exec(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 47)
		INSERT INTO recording_blocks (session_id, seq, at, upto, lost, last, lines, prev, hash) SELECT $1, i, 0, 0, 0, FALSE, zeroblob(1 << 20), '', '' FROM n`)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(s.b.Roots, nil, s.b.Now)}}
	t.Cleanup(client.CloseIdleConnections)
	read := func(meanwhile func()) (int64, error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.b.OperatorURL()+api.Prefix+"/recordings/"+k.Terminal.ID+"/cast", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.operator)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%d", res.StatusCode)
		}
		meanwhile()
		return io.Copy(io.Discard, res.Body)
	}
	if n, err := read(func() {}); err != nil || n != blocks<<20 {
		t.Fatalf("%d bytes (%v)", n, err)
	}
	if n, err := read(func() { exec(`DELETE FROM recording_blocks WHERE session_id = $1 AND seq >= 32`) }); err == nil || n >= blocks<<20 {
		t.Errorf("its end is gone, and %d bytes of it are all of it (%v)", n, err)
	}
	exec(`DELETE FROM recording_blocks WHERE session_id = $1 AND seq = 20`)
	if n, err := read(func() {}); err == nil || n > 20<<20 {
		t.Errorf("it has a hole, and %d bytes of it are read (%v)", n, err)
	}
	if r := servertest.Must[api.RecordingReport](t, s.b, http.MethodGet, "/recordings/"+k.Terminal.ID+"/verify", nil); r.Intact {
		t.Errorf("%+v", r)
	}
}
