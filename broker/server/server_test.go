package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
)

// refused starts a broker that must not start.
func refused(t *testing.T, c server.Config, code string) string {
	t.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.AgentListen == "" {
		c.AgentListen = "127.0.0.1:0"
	}
	s, err := server.New(t.Context(), c)
	if err == nil {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = s.Run(ctx)
		t.Fatalf("it started, want %s", code)
	}
	var e *broker.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return e.Message
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestASecondStartFindsWhatTheFirstMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	in := func(c *server.Config) { c.DataDir = dir }
	b := servertest.Start(t, in)
	servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	token, pin := b.Token, b.RootSHA256()
	for _, name := range []string{"admin.token", "client.yaml", "hostler.db"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory: %v, %v", info.Mode(), err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	again := servertest.Start(t, in)
	if again.Token != token || again.RootSHA256() != pin {
		t.Error("the token or the root is another one")
	}
	if nodes := servertest.Must[api.NodeList](t, again, http.MethodGet, "/nodes", nil); len(nodes.Items) != 1 {
		t.Errorf("%d nodes are there, want 1", len(nodes.Items))
	}
}

func TestASecondBrokerOnOneDataDirectoryIsRefused(t *testing.T) {
	b := servertest.Start(t)
	message := refused(t, server.Config{DataDir: b.Dir}, "data_dir_in_use")
	if !strings.Contains(message, b.Dir) {
		t.Errorf("the message does not name the directory: %s", message)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/nodes", nil); a.Status != http.StatusOK {
		t.Errorf("the first one answers %d", a.Status)
	}
}

func TestAStartThatFailsLeavesNothingHalfMade(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // the test needs no more of it
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		change func(*server.Config)
		code   string
	}{
		"operators' port taken": {func(c *server.Config) { c.Listen = taken.Addr().String() }, "address_in_use"},
		"relay's port taken": {func(c *server.Config) {
			c.Listen, c.AgentListen, c.RelayListen = "127.0.0.1:0", "127.0.0.1:0", taken.Addr().String()
		}, "address_in_use"},
		"no port of the relay":      {func(c *server.Config) { c.RelayListen = "127.0.0.1" }, "bad_address"},
		"agents' port taken":        {func(c *server.Config) { c.AgentListen = taken.Addr().String() }, "address_in_use"},
		"no port":                   {func(c *server.Config) { c.Listen = "127.0.0.1" }, "bad_address"},
		"no address":                {func(c *server.Config) { c.Listen = "nosuchhost.invalid:1" }, "bad_address"},
		"advertised nonsense":       {func(c *server.Config) { c.Advertise = "a b" }, "bad_address"},
		"advertised everywhere":     {func(c *server.Config) { c.Advertise = "0.0.0.0:1" }, "bad_address"},
		"not a database":            {func(c *server.Config) { c.Database = "mysql://x" }, "bad_store_url"},
		"a file in the dir's place": {func(c *server.Config) { c.DataDir = file }, "data_dir_unusable"},
		"a file on the way":         {func(c *server.Config) { c.DataDir = filepath.Join(file, "data") }, "data_dir_unusable"},
		"no directory":              {func(c *server.Config) { c.DataDir = "" }, "bad_usage"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			c := server.Config{DataDir: filepath.Join(parent, "data")}
			row.change(&c)
			if message := refused(t, c, row.code); strings.Contains(message, "\n") {
				t.Errorf("the message has several lines: %q", message)
			}
			if left := names(t, parent); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
	// The ports are free again.
	b := servertest.Start(t)
	_ = b.Stop()
	servertest.Start(t, func(c *server.Config) {
		c.Listen = strings.TrimPrefix(b.OperatorURL(), "https://")
		c.AgentListen = strings.TrimPrefix(b.AgentURL(), "https://")
	})
}

// Whoever starts a broker beside another one learns of all taken ports at once.
func TestARefusalNamesAllTakenPorts(t *testing.T) {
	var taken []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // the test needs no more of it
		taken = append(taken, l.Addr().String())
	}
	c := server.Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: taken[0], AgentListen: taken[1], RelayListen: taken[2]}
	message := refused(t, c, "address_in_use")
	for i, flag := range []string{"--listen", "--agent-listen", "--relay-listen"} {
		if !strings.Contains(message, taken[i]) || !strings.Contains(message, "use "+flag+")") {
			t.Errorf("%s on %s is not in %q", flag, taken[i], message)
		}
	}
	// One free port among taken ones is free again afterwards.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.AgentListen = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if message := refused(t, c, "address_in_use"); strings.Contains(message, "--agent-listen") {
		t.Errorf("the free port is in %q", message)
	}
	if free, err = net.Listen("tcp", c.AgentListen); err != nil {
		t.Errorf("the port stays taken: %v", err)
	} else {
		_ = free.Close()
	}
}

func TestKeysAreNotMadeAnewBesideADatabase(t *testing.T) {
	b := servertest.Start(t)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(b.Dir, "keys"), filepath.Join(b.Dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	refused(t, server.Config{DataDir: b.Dir}, "keys_missing")
	other := servertest.Start(t)
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other.Dir, "keys"), filepath.Join(b.Dir, "keys")); err != nil {
		t.Fatal(err)
	}
	refused(t, server.Config{DataDir: b.Dir}, "key_mismatch")
}

func TestANewerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	b := servertest.Start(t)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	newer(t, filepath.Join(b.Dir, "hostler.db"))
	refused(t, server.Config{DataDir: b.Dir}, "schema_too_new")
}

// newer writes an unknown migration into the database.
func newer(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the statement below is what counts
	if _, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
}

// TestACrashBeforeTheAdminTokenCountedIsMended begins where the first start was killed: after the
// file was written and before the store knew the token.
func TestACrashBeforeTheAdminTokenCountedIsMended(t *testing.T) {
	dir := t.TempDir()
	const secret = "hso_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if err := os.WriteFile(filepath.Join(dir, "admin.token"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := servertest.Start(t, func(c *server.Config) { c.DataDir = dir })
	if b.Token != secret {
		t.Fatal("the file was written over")
	}
	if got := servertest.Must[api.Token](t, b, http.MethodGet, "/whoami", nil); got.Name != "admin" {
		t.Errorf("it is %+v", got)
	}
}

func TestAnOperatorMayRemoveTheAdminTokensFile(t *testing.T) {
	b := servertest.Start(t)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.Dir, "admin.token")); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), server.Config{DataDir: b.Dir, Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if left := names(t, b.Dir); strings.Contains(strings.Join(left, " "), "admin.token") {
		t.Errorf("it was made again: %v", left)
	}
}

func TestTheListenersSpeakNothingButTLS13(t *testing.T) {
	b := servertest.Start(t)
	for _, u := range []string{b.OperatorURL(), b.AgentURL()} {
		host := strings.TrimPrefix(u, "https://")
		config := pki.PinnedConfig(b.RootSHA256(), "127.0.0.1", b.Now)
		conn, err := tls.Dial("tcp", host, config)
		if err != nil {
			t.Errorf("%s does not lead to the pinned root: %v", u, err)
			continue
		}
		_ = conn.Close()
		config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		if conn, err := tls.Dial("tcp", host, config); err == nil {
			_ = conn.Close()
			t.Errorf("%s speaks TLS 1.2", u)
		}
	}
}

func TestProbesAndMetricsNeedNoTokenAndNameNoNode(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "secret-host"}).Settle(t)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+path, nil); a.Status != http.StatusOK || string(a.Body) != want {
			t.Errorf("%s answers %d %q", path, a.Status, a.Body)
		}
	}
	a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil)
	for _, line := range []string{
		`hostler_node_status{status="active"} 1`, `hostler_nodes{availability="held",site="",sku=""} 0`, `hostler_availability_age_seconds `, `hostler_tasks{status="queued"} 0`, "hostler_store_up 1", "hostler_trust_version 1", "hostler_waiting_polls 0",
		`hostler_build_info{store="sqlite",version="test"} 1`, `hostler_task_results_total{outcome="interrupted",type="node.self_update"} 0`,
		`hostler_expires_timestamp_seconds{what="issuing CA"} `, `hostler_expires_timestamp_seconds{what="server certificate"} `, `hostler_expiring{what="operator token"} 0`,
		`listener="agents",route="POST /internal/v1/nodes/enroll"`, `listener="operators",route="POST /api/v1/admin/nodes"`,
	} {
		if !bytes.Contains(a.Body, []byte(line)) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if bytes.Contains(a.Body, []byte(n.NodeID)) || bytes.Contains(a.Body, []byte(n.Hostname)) {
		t.Error("the metrics name a node")
	}
}

func TestStoppingAnswersTheRequestsThatWait(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	answer := make(chan servertest.Answer, 1)
	waiting := make(chan struct{})
	go func() {
		close(waiting)
		answer <- b.Ask(t, b.Token, http.MethodGet, "/tasks/"+task.ID+"?wait=50", nil)
	}()
	<-waiting
	servertest.Eventually(t, "the request is being answered", func() bool {
		a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil)
		return a.Status == http.StatusOK
	})
	begun := b.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := b.Now().Sub(begun); took > 9e9 {
		t.Errorf("stopping took %v", took)
	}
	if a := <-answer; a.Status != http.StatusOK {
		t.Errorf("it was answered %d %s", a.Status, a.Body)
	}
}

// replicas are two brokers on one database with the same keys.
func replicas(t *testing.T, url string) (a, b *servertest.Broker) {
	t.Helper()
	postgres := func(dir string) func(*server.Config) {
		return func(c *server.Config) { c.DataDir, c.Database = dir, url }
	}
	one, two := t.TempDir(), t.TempDir()
	dir, err := server.OpenDataDir(one)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.MakeKeys(servertest.Clock(), ""), dir.Close()); err != nil {
		t.Fatal(err)
	}
	a = servertest.Start(t, postgres(one))
	if err := os.CopyFS(filepath.Join(two, "keys"), os.DirFS(filepath.Join(one, "keys"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, filepath.Join(two, "keys")) {
		if err := os.Chmod(filepath.Join(two, "keys", name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The second replica has no admin token of its own: the first one's counts.
	if err := os.WriteFile(filepath.Join(two, "admin.token"), []byte(a.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return a, servertest.Start(t, postgres(two))
}

func TestReplicasShareADatabaseAndKeys(t *testing.T) {
	url := storetest.PostgresURL(t)
	refused(t, server.Config{DataDir: t.TempDir(), Database: url}, "keys_missing")
	a, b := replicas(t, url)
	servertest.Must[api.NodeBootstrap](t, a, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	if nodes := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil); len(nodes.Items) != 1 {
		t.Errorf("the other replica sees %d nodes", len(nodes.Items))
	}
	// A token revoked at one is refused at the other with its next request.
	secret := a.NewToken(t, api.TokenCreate{Name: "eve", Role: "viewer"})
	if got := b.Ask(t, secret, http.MethodGet, "/whoami", nil); got.Status != http.StatusOK {
		t.Errorf("the other replica answers %d", got.Status)
	}
	servertest.Must[api.Token](t, a, http.MethodPost, "/tokens/eve/revoke", api.ReasonBody{})
	if got := b.Ask(t, secret, http.MethodGet, "/whoami", nil); got.Code() != "token_revoked" {
		t.Errorf("the other replica answers %d %s", got.Status, got.Body)
	}
	// A replica with other keys does not start.
	three := t.TempDir()
	dir, err := server.OpenDataDir(three)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.MakeKeys(servertest.Clock(), ""), dir.Close()); err != nil {
		t.Fatal(err)
	}
	refused(t, server.Config{DataDir: three, Database: url}, "key_mismatch")
}

// A running broker reports refused strangers, and keeps its audit heads in files.
func TestARunningBrokerTellsOfStrangersAndKeepsItsHeads(t *testing.T) {
	b := servertest.Start(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.Roots, MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	for range 4 {
		res, err := client.Post(b.AgentURL()+"/internal/v1/nodes/enroll", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	// The first has a row of its own. The others are counted, and on a busy machine they come to the database in two
	// parts, of which each gets a summary.
	b.Advance(store.StrangersEvery)
	told, summaries := 0, 0
	servertest.Eventually(t, "the summary", func() bool {
		rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=request.refused", nil).Items
		for _, row := range rows[:max(0, len(rows)-1-summaries)] {
			var refusals int
			if _, err := fmt.Sscanf(row.Reason, "%d refusals of malformed between ", &refusals); err != nil {
				t.Fatalf("%q: %v", row.Reason, err)
			}
			told += refusals
			summaries++
			b.Advance(store.StrangersEvery)
		}
		return told >= 3
	})
	if told != 3 {
		t.Errorf("%d further refusals are told of, not 3", told)
	}
	servertest.Eventually(t, "a head in a file", func() bool {
		files, err := filepath.Glob(filepath.Join(b.Dir, "audit-heads", "20*.ndjson"))
		return err == nil && len(files) > 0
	})
}
