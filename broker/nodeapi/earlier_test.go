package nodeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// The fields that agents of earlier releases read of an answer. These agents refuse unknown fields,
// so the structs are frozen: a new member goes only to agents that asked for it.
type (
	earlierEnrolled struct {
		NodeID      string    `json:"node_id"`
		NodeEpoch   int64     `json:"node_epoch"`
		Certificate string    `json:"certificate"`
		TrustBundle string    `json:"trust_bundle"`
		Now         time.Time `json:"now"`
	}
	earlierRenewed struct {
		Certificate string    `json:"certificate"`
		Late        bool      `json:"late"`
		Now         time.Time `json:"now"`
	}
	earlierWaited struct {
		Tasks []struct {
			TaskID     string    `json:"task_id"`
			Attempt    int       `json:"attempt"`
			LeaseUntil time.Time `json:"lease_until"`
			Envelope   string    `json:"envelope"`
		} `json:"tasks,omitempty"`
		Cancel []string `json:"cancel,omitempty"`
		Report bool     `json:"report,omitempty"`
	}
)

// TestAgentsOfEarlierReleasesAreServed sends the requests of earlier agents, byte for byte except
// for random values, and reads the answers as these agents do.
func TestAgentsOfEarlierReleasesAreServed(t *testing.T) {
	const types = `["node.heartbeat_check@1","node.validate_clean@1"]`
	for name, release := range map[string]struct{ facts, digest string }{
		"before updates": {`,"facts":{"keys":{"gpu.vendor":"none"},"disks_listed":false}`, `{"task_types":` + types + `,"capabilities":{"os":"linux"},"facts":{"keys":{"gpu.vendor":"none"},"disks_listed":false}}`},
		"before facts":   {``, `{"task_types":` + types + `,"capabilities":{"os":"linux"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			_, token := b.create(store.NewNode{})
			n := b.machine()
			csr, err := json.Marshal(n.csr())
			if err != nil {
				t.Fatal(err)
			}
			var joined earlierEnrolled
			n.post("/internal/v1/nodes/enroll", fmt.Appendf(nil, `{"token":%q,"csr":%s,"agent_version":"0.9.0","task_types":%s,"capabilities":{"os":"linux"}%s,"hostname":"machine","now":%q}`,
				token, csr, types, release.facts, b.clock.Now().UTC().Format(time.RFC3339Nano))).into(&joined)
			n.take(wire.EnrollReply{NodeID: joined.NodeID, NodeEpoch: joined.NodeEpoch, Certificate: joined.Certificate, TrustBundle: joined.TrustBundle})

			// The report's digest is computed as at that time, so that the broker does not ask for
			// the report again.
			sum := sha256.Sum256([]byte(release.digest))
			n.header.Set(wire.HeaderAgentVersion, "0.9.0")
			n.header.Set(wire.HeaderTrustVersion, "1")
			n.header.Set(wire.HeaderReport, "sha256:"+hex.EncodeToString(sum[:]))
			var waited earlierWaited
			n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).into(&waited)
			if len(waited.Tasks) != 1 || waited.Report {
				t.Fatalf("its poll is answered %+v", waited)
			}
			a := n.post(n.path("/tasks/"+waited.Tasks[0].TaskID+"/result"), fmt.Appendf(nil, `{"attempt":%d,"outcome":"failed","code":"internal","message":"no"}`, waited.Tasks[0].Attempt))
			if a.status != 200 {
				t.Errorf("its result: %d %s", a.status, a.body)
			}

			var renewed earlierRenewed
			n.post(n.path("/renew"), fmt.Appendf(nil, `{"csr":%s,"agent_version":"0.9.0","task_types":%s,"capabilities":{"os":"linux"}%s,"trust_version":1}`, csr, types, release.facts)).into(&renewed)
			if !strings.Contains(renewed.Certificate, "BEGIN CERTIFICATE") {
				t.Error("it has no new certificate")
			}
			if g := must(b.db.Agent(t.Context(), n.id))(t); g.Commit != "" || g.SHA256 != "" {
				t.Errorf("a program is known that it did not tell: %+v", g)
			}
		})
	}
}
