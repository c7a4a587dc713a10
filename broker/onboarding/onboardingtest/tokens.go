package onboardingtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
)

const tokenLine = "# enrol token "

// Enroll enrols the agent of a machine with this user-data, if the token in the user-data is open.
func (b *Book) Enroll(userData []byte) (enrolled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, rest, has := strings.Cut(string(userData), tokenLine)
	token, _, _ := strings.Cut(rest, "\n")
	for _, e := range b.nodes {
		if has && token != "" && e.token == token && b.Now().Before(e.expires) && e.Status != broker.Deleted {
			e.token = ""
			e.Epoch++
			e.Capabilities = maps.Clone(b.reports)
			return true
		}
	}
	return false
}

// Bundle implements onboarding.Nodes.
func (b *Book) Bundle(_ context.Context, nodeID string, f onboarding.BundleFacts) (onboarding.Bundle, error) {
	leave, err := b.enter("Bundle")
	if err != nil {
		return onboarding.Bundle{}, err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID && e.Status != broker.Deleted })
	if e == nil {
		return onboarding.Bundle{}, notFound(nodeID)
	}
	const spare = 15 * time.Minute
	if e.token == "" || e.expires.Before(f.Expires) {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", nodeID, e.expires.UnixNano()))
		e.token, e.expires, e.extended = fmt.Sprintf("hsn_%x", sum[:16]), f.Expires.Add(spare), 0
	}
	text := fmt.Sprintf("#cloud-config\n# node %s on %s, %d disks, %d RoCE addresses\n", nodeID, f.SystemID, len(f.Disks), len(f.RoCE))
	return onboarding.Bundle{
		UserData: []byte(text + tokenLine + e.token + "\n"),
		Digest:   fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), Epoch: e.Epoch,
	}, nil
}

// ExtendToken implements onboarding.Nodes.
func (b *Book) ExtendToken(_ context.Context, nodeID string, until time.Time, _ string) error {
	leave, err := b.enter("ExtendToken")
	if err != nil {
		return err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	const most = 2
	switch {
	case e == nil:
		return notFound(nodeID)
	case e.token == "":
		return broker.Errorf(broker.Refused, "token_none", "cannot extend the enrol token of node %s: it has none that is open", nodeID)
	case e.extended >= most:
		return broker.Errorf(broker.Refused, "token_extended_twice",
			"cannot extend the enrol token of node %s: the token was already extended %d times", nodeID, most)
	case until.After(e.expires):
		e.expires = until
		e.extended++
	}
	return nil
}

// Open lists the open tokens, for tests that search for them.
func (b *Book) Open() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]bool{}
	for _, e := range b.nodes {
		if e.token != "" {
			out[e.token] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}
