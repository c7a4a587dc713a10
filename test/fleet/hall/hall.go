package hall

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/lab"
)

// Hall is the broker's process and the fleet's.
type Hall struct {
	*lab.Lab
	*fleet.Process
	Operator *client.Client
	Nodes    []string // all nodes with records, in their order of joining

	tokens []string
	joined int
	http   *http.Client
}

// New starts a broker, with the programs in bin, and records of the given number of nodes, and a
// fleet without nodes yet. The calling program must call fleet.Serve first. Events of tasks are
// written to the file events, unless events is empty.
func New(ctx context.Context, bin string, nodes int, script fleet.Script, events string) (_ *Hall, err error) {
	h := &Hall{}
	if h.Lab, err = lab.New(bin, "127.0.0.1"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = h.Lab.Close()
		}
	}()
	if err := h.StartBroker(ctx); err != nil { // the broker makes its keys
		return nil, err
	}
	if err := h.StopBroker(); err != nil {
		return nil, err
	}
	if err := h.record(ctx, nodes); err != nil {
		return nil, err
	}
	if err := h.StartBroker(ctx); err != nil {
		return nil, err
	}
	root, err := h.connect()
	if err != nil {
		return nil, err
	}
	h.Process, err = fleet.Start(fleet.Site{Broker: "https://" + h.AgentAddress(), CASHA256: root, Script: script}, events)
	return h, err
}

// record makes the records of nodes while no broker runs.
func (h *Hall) record(ctx context.Context, nodes int) error {
	db, err := store.Open(ctx, store.Options{URL: server.StoreURL(h.DataDir(), ""), Exclusive: true})
	if err != nil {
		return err
	}
	h.tokens, h.Nodes = make([]string, nodes), make([]string, nodes)
	var group errgroup.Group
	group.SetLimit(64) // concurrent writes are committed together
	for i := range nodes {
		group.Go(func() error {
			token, err := pki.NewEnrollToken(rand.Reader)
			if err != nil {
				return err
			}
			h.tokens[i], h.Nodes[i] = token.Reveal(), pki.NewNodeID(rand.Reader)
			_, err = db.CreateNode(ctx, broker.Actor{Name: "fleet", Role: broker.RoleOperator}, store.NewNode{
				ID: h.Nodes[i], Hostname: fmt.Sprintf("sim-%05d", i+1), Bootstrap: "command",
				TokenHash: pki.HashToken(token.Reveal()), TokenExpires: time.Now().Add(24 * time.Hour),
			})
			return err
		})
	}
	return errors.Join(group.Wait(), db.Close())
}

// connect makes the operator's client, and returns the hash that nodes pin.
func (h *Hall) connect() (root string, err error) {
	file, err := clientfile.Load(h.Path("broker/client.yaml"))
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(file.TokenFile)
	if err != nil {
		return "", err
	}
	roots, err := file.Roots()
	if err != nil {
		return "", err
	}
	cert, err := file.Root()
	if err != nil {
		return "", err
	}
	h.Operator = client.New(client.Options{
		Broker: file.Broker, Roots: roots, Token: strings.TrimSpace(string(token)), Version: "fleet",
		Now: time.Now,
	})
	h.http = &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(roots, nil, time.Now)}, Timeout: 10 * time.Second}
	return pki.Fingerprint(cert), nil
}

// Grow has nodes join up to the given number, and returns when all are in service and wait.
func (h *Hall) Grow(ctx context.Context, nodes int) error {
	first := h.Counts().Ended + int64(nodes-h.joined) // the first task of each new node
	if err := h.Join(h.tokens[h.joined:nodes]); err != nil {
		return err
	}
	h.joined = nodes
	all := int64(nodes)
	return h.Until(ctx, fmt.Sprintf("%d nodes are in service", nodes), func(c fleet.Counts) bool {
		return c.Enrolled == all && c.Ended >= first && c.Waiting >= Nearly(all)
	})
}

// Nearly is the number of nodes that wait when all are there: now and then a node is between two
// polls.
func Nearly(nodes int64) int64 { return nodes - nodes/200 }

// Metric returns a metric of the broker without labels.
func (h *Hall) Metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+h.AdminAddress()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := h.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the broker has no metric %s", name)
}

// Close ends both processes.
func (h *Hall) Close() error {
	var ended error
	if h.Process != nil {
		ended = h.Process.Close()
	}
	return errors.Join(ended, h.Lab.Close())
}
