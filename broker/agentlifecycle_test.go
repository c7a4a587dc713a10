package broker

import (
	"testing"
	"time"
)

func TestTheStandingOfAnAgent(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	n := Node{Epoch: 1, AgentVersion: "1.4.0", CertNotAfter: now.Add(12 * time.Hour), TrustVersion: 3, ResolverWanted: "sha256:a", ResolverDigest: "sha256:a"}
	a := Agent{Channel: ChannelStable, Commit: "abc", SHA256: "11"}
	want := AgentRelease{Version: "1.4.0", Commit: "abc", SHA256: "11"}
	for _, test := range []struct {
		name   string
		change func(n *Node, a *Agent, want **AgentRelease)
		drift  AgentDrift
		why    int
	}{
		{"as wanted", func(*Node, *Agent, **AgentRelease) {}, AgentInSync, 0},
		{"nothing is wanted", func(_ *Node, _ *Agent, want **AgentRelease) { *want = nil }, AgentInSync, 0},
		{"an older one", func(n *Node, _ *Agent, _ **AgentRelease) { n.AgentVersion = "1.3.9" }, AgentVersionDrift, 1},
		{"a newer one", func(n *Node, _ *Agent, _ **AgentRelease) { n.AgentVersion = "1.5.0" }, AgentVersionDrift, 1},
		{"the same version of another commit", func(_ *Node, a *Agent, _ **AgentRelease) { a.Commit = "abd" }, AgentVersionDrift, 1},
		{"the same version and another program", func(_ *Node, a *Agent, _ **AgentRelease) { a.SHA256 = "12" }, AgentVersionDrift, 1},
		{"a program that could not be read", func(_ *Node, a *Agent, _ **AgentRelease) { a.SHA256 = "" }, AgentVersionDrift, 1},
		{"a build of dev", func(n *Node, _ *Agent, _ **AgentRelease) { n.AgentVersion = "dev" }, AgentUnknown, 1},
		{"a build that says that it is one of development", func(n *Node, _ *Agent, _ **AgentRelease) { n.AgentVersion = "0.0.0-dev" }, AgentUnknown, 1},
		{"an unknown commit", func(_ *Node, a *Agent, _ **AgentRelease) { a.Commit = "unknown" }, AgentUnknown, 1},
		{"a commit and what was changed since", func(_ *Node, a *Agent, _ **AgentRelease) { a.Commit = "abc-dirty" }, AgentUnknown, 1},
		{"an agent from before commits were told", func(_ *Node, a *Agent, want **AgentRelease) { a.Commit, *want = "", nil }, AgentUnknown, 1},
		{"a pin that is met", func(_ *Node, a *Agent, want **AgentRelease) { a.Channel, a.Pinned, *want = ChannelPinned, "1.4.0", nil }, AgentInSync, 0},
		{"a pin that is not", func(_ *Node, a *Agent, want **AgentRelease) { a.Channel, a.Pinned, *want = ChannelPinned, "1.2.0", nil }, AgentVersionDrift, 1},
		{"a pin that was let go of", func(_ *Node, a *Agent, want **AgentRelease) { a.Pinned, *want = "1.2.0", nil }, AgentInSync, 0},
		{"other profiles", func(n *Node, _ *Agent, _ **AgentRelease) { n.ResolverDigest = "sha256:b" }, AgentConfigDrift, 1},
		{"an old trust bundle", func(n *Node, _ *Agent, _ **AgentRelease) { n.TrustVersion = 2 }, AgentConfigDrift, 1},
		{"a certificate that is over", func(n *Node, _ *Agent, _ **AgentRelease) { n.CertNotAfter = now }, AgentCertificate, 1},
		{"a certificate that nobody renews", func(n *Node, _ *Agent, _ **AgentRelease) { n.CertNotAfter = now.Add(5 * time.Hour) }, AgentCertificate, 1},
		{"a certificate before a version before a configuration", func(n *Node, _ *Agent, _ **AgentRelease) {
			n.CertNotAfter, n.AgentVersion, n.TrustVersion = now, "1.3.9", 2
		}, AgentCertificate, 3},
		{"a version before a configuration", func(n *Node, _ *Agent, _ **AgentRelease) { n.AgentVersion, n.TrustVersion = "1.3.9", 2 }, AgentVersionDrift, 2},
		{"one that never enrolled", func(n *Node, _ *Agent, want **AgentRelease) { *n, *want = Node{}, nil }, AgentUnknown, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, a, w := n, a, want
			wants := &w
			test.change(&n, &a, &wants)
			s := AgentStanding(n, a, wants, 3, now)
			if s.Drift != test.drift || len(s.Why) != test.why || s.Drift.Drifted() != (test.why > 0) {
				t.Errorf("%+v, want %s for %d reasons", s, test.drift, test.why)
			}
		})
	}
}
