//go:build !race

package turnover_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/test/maassim"
)

// RoundTrip watches every call to the region: a step changes only the machine of its run's own
// node, and only after reading that machine in the same step.
func (s *simulation) RoundTrip(req *http.Request) (*http.Response, error) {
	s.meanwhile()
	part := strings.Split(strings.TrimPrefix(req.URL.Path, "/MAAS/api/2.0/"), "/")
	op, id := req.URL.Query().Get("op"), ""
	if (part[0] == "machines" || part[0] == "nodes") && len(part) > 1 {
		id = part[1]
	}
	if req.Method == http.MethodGet {
		res, err := s.region.RoundTripper().RoundTrip(req)
		if id != "" && op == "" && part[0] == "machines" {
			s.seen[id] = true
		}
		s.answered(req, res, err)
		return res, err
	}
	if op == "allocate" {
		id = s.form(req).Get("system_id")
	}
	if req.Method == http.MethodDelete && part[0] == "machines" && len(part) == 3 && op == "" {
		op = "delete"
	}
	if id == "" {
		res, err := s.region.RoundTripper().RoundTrip(req) // about no existing machine
		s.answered(req, res, err)
		return res, err
	}
	b, r := s.boxOf(id), s.runOf(s.stepping)
	if b == nil || r == nil {
		s.wrong("%s %s of machine %s, which nobody asked for (run %s)", req.Method, op, id, s.stepping)
		return nil, io.ErrUnexpectedEOF
	}
	s.allowed(op, b, r)
	if !s.calmed && slices.Contains(tardy, op) && s.chance(5) {
		return s.late(req, op, b)
	}
	res, err := s.carry(req, op, b, r)
	s.answered(req, res, err)
	return res, err
}

// allowed holds the rules for a run's change of a machine.
func (s *simulation) allowed(op string, b *box, r *begun) {
	before, _ := s.region.Machine(b.systemID)
	node, run := s.book.Machine(b.id), s.run(r.id)
	mark := before.Annotations["hostler-node"]
	switch {
	case r.box != b:
		s.wrong("%s of machine %s by run %s, which is of node %s", op, b.systemID, r.id, r.box.id)
	case !s.seen[b.systemID]:
		s.wrong("%s of machine %s, which was not looked at before", op, b.systemID)
	case run.Status.Ended():
		s.wrong("%s of machine %s by run %s, which is %s", op, b.systemID, r.id, run.Status)
	case r.req.Mode != turnover.Reimage && r.req.Mode != turnover.FullDecommission:
		s.wrong("%s of machine %s by a %s", op, b.systemID, r.req.Mode)
	case !slices.Contains([]broker.NodeStatus{broker.Draining, broker.Retired, broker.Quarantined, broker.Removing, broker.Deleted}, node.Status):
		s.wrong("%s of machine %s, whose node is %s", op, b.systemID, node.Status)
	case !r.taken || node.Status != broker.Deleted && !node.TurnoverOwed:
		s.wrong("%s of machine %s by run %s, which has not taken its node: taken %v, owed %v", op, b.systemID, r.id, r.taken, node.TurnoverOwed)
	}
	switch op {
	case "release":
		if before.Owner != "admin" || mark != b.id && (mark != "" || !b.adopted) && before.Status != maassim.Allocated {
			s.wrong("run %s releases machine %s, which is %s's and marked for %q", r.id, b.systemID, before.Owner, mark)
		}
		for _, a := range node.Users {
			if a.Live() && !slices.Contains(s.book.Forced, r.id+"/"+a.ID) {
				s.wrong("run %s releases machine %s under allocation %s, which it has not ended", r.id, b.systemID, a.ID)
			}
		}
		if before.Status == maassim.Deployed && !node.Denied() {
			s.wrong("run %s releases machine %s, and node %s is not cut off", r.id, b.systemID, b.id)
		}
	case "deploy":
		if r.req.Mode != turnover.Reimage || before.Owner != "admin" || mark != b.id || before.Annotations["hostler-run"] != r.id {
			s.wrong("run %s (%s) deploys machine %s, which is %s's and marked for %q by %q", r.id, r.req.Mode, b.systemID, before.Owner, mark, before.Annotations["hostler-run"])
		}
	case "power_off", "delete":
		if before.Owner != "" || r.req.Mode != turnover.FullDecommission || op == "delete" && !r.req.RemoveRecord {
			s.wrong("%s of machine %s of %q by run %s (%+v)", op, b.systemID, before.Owner, r.id, r.req)
		}
	}
}

// carry lets the region change a machine, and notes the result.
func (s *simulation) carry(req *http.Request, op string, b *box, r *begun) (*http.Response, error) {
	before, _ := s.region.Machine(b.systemID)
	history := s.region.History(b.systemID)
	res, err := s.region.RoundTripper().RoundTrip(req)
	after, there := s.region.Machine(b.systemID)
	if there && op == "deploy" && after.Status == maassim.Deploying && before.Status != maassim.Deploying {
		r.deployed++
		s.redeployed(b, r, history)
	}
	return res, err
}

// redeployed checks, by the machine's history, that MAAS had the machine back since its last
// deployment.
func (s *simulation) redeployed(b *box, r *begun, history []maassim.Change) {
	deployed, freed := -1, -1
	for i, c := range history {
		switch {
		case c.What == "reverted": // its power could not be switched
			deployed = -1
		case c.What == "status" && c.To == maassim.Deploying.String():
			deployed = i
		case c.What == "status" && (c.To == maassim.Ready.String() || c.To == maassim.New.String()):
			freed = i
		}
	}
	if freed < deployed || freed < 0 {
		s.wrong("run %s deploys machine %s again, which MAAS has not had back since", r.id, b.systemID)
	}
	if most := 1 + s.state(r).Machine.DeployRetries + r.passes; r.deployed > most {
		s.wrong("run %s has deployed %d times, and %d are accounted for", r.id, r.deployed, most)
	}
}

func (s *simulation) boxOf(systemID string) *box {
	if i := slices.IndexFunc(s.boxes, func(b *box) bool { return b.systemID == systemID }); i >= 0 {
		return s.boxes[i]
	}
	return nil
}

// form reads a call's form, and puts it back.
func (s *simulation) form(req *http.Request) url.Values {
	raw, err := io.ReadAll(req.Body)
	s.must(err)
	req.Body = io.NopCloser(bytes.NewReader(raw))
	again := req.Clone(ctx)
	again.Method, again.Body = http.MethodPost, io.NopCloser(bytes.NewReader(raw))
	s.must(again.ParseForm())
	return again.PostForm
}

// answered notes the answers that let a run call the whole site unreachable.
func (s *simulation) answered(req *http.Request, res *http.Response, err error) {
	identity := strings.HasSuffix(req.URL.Path, "/version/") || req.URL.Query().Get("op") == "whoami"
	if identity && (err != nil || res.StatusCode != http.StatusOK || strings.HasPrefix(res.Header.Get("Content-Type"), "text/html")) || err == nil && res.StatusCode == http.StatusUnauthorized {
		s.unansweredAt = s.clock.Now()
	}
}
