package server

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/fleet"
)

// benchBroker is a whole broker that runs: one, or the replicas of one.
type benchBroker []*Server

// newBenchBroker starts so many on one database, with the same keys.
func newBenchBroker(b *testing.B, engine string, replicas int) benchBroker {
	b.Helper()
	database, keys := "", ""
	if engine == "postgres" {
		database, keys = storetest.DurablePostgresURL(b), filepath.Join(b.TempDir(), "ca")
		dir, err := OpenDataDir(keys)
		must(b, err)
		must(b, dir.MakeKeys(time.Now(), ""))
		must(b, dir.Close())
	}
	var all benchBroker
	for range replicas {
		all = append(all, startBenchBroker(b, database, keys))
	}
	return all
}

// startBenchBroker starts one, with the keys of another data directory unless that is empty.
func startBenchBroker(b *testing.B, database, keys string) *Server {
	b.Helper()
	c := Config{DataDir: filepath.Join(b.TempDir(), "broker"), Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: "bench", Database: database, nodeRate: rate.Inf}
	if keys != "" {
		must(b, os.Mkdir(c.DataDir, 0o700))
		must(b, exec.Command("cp", "-a", filepath.Join(keys, "keys"), c.DataDir).Run())
	}
	s, err := New(b.Context(), c)
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		must(b, <-ended)
	})
	return s
}

// fleet starts a process of nodes, which enrol and are in service. Where there are
// replicas each connection goes to the next.
func (s benchBroker) fleet(b *testing.B, agents int) (nodes []string, stop func()) {
	b.Helper()
	site := fleet.Site{Broker: s[0].AgentURL(), CASHA256: s[0].RootSHA256()}
	for _, one := range s {
		site.Replicas = append(site.Replicas, one.agentPort.Addr().String())
	}
	p, err := fleet.Start(site, "")
	must(b, err)
	var tokens []string
	for range agents {
		token, err := pki.NewEnrollToken(rand.Reader)
		must(b, err)
		id := pki.NewNodeID(rand.Reader)
		_, err = s[0].db.CreateNode(b.Context(), bencher, store.NewNode{
			ID: id, Hostname: id, Bootstrap: "command", TokenHash: pki.HashToken(token.Reveal()), TokenExpires: time.Now().Add(time.Hour),
		})
		must(b, err)
		tokens, nodes = append(tokens, token.Reveal()), append(nodes, id)
	}
	must(b, p.Join(tokens))
	all := int64(agents)
	must(b, p.Until(b.Context(), "all nodes are in service", func(c fleet.Counts) bool { return c.Ended == all && c.Waiting >= all-all/200 }))
	s.sharePolls(b, agents)
	return nodes, func() { must(b, p.Close()) }
}

// sharePolls fails where one of the replicas has next to none of the polls: what was measured
// would be another thing.
func (s benchBroker) sharePolls(b *testing.B, agents int) {
	b.Helper()
	for i, one := range s {
		if n := one.nodes.WaitingPolls(); int(n) < agents/len(s)/2 {
			b.Fatalf("of %d polls only %v wait at broker %d of %d", agents, n, i+1, len(s))
		}
	}
}
