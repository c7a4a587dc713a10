package turnovertest

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/turnover"
)

// Verify reads a certificate as any holder of the trust file would.
func (b *Book) Verify(id string) (*certificate.Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return certificate.Verify(b.files[id], b.ca.Bundle, b.Now())
}

// File is a certificate's file.
func (b *Book) File(id string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.files[id]
}

// Certificates are the ids of the issued certificates, in order.
func (b *Book) Certificates() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.issued)
}

// Accept has an operator accept a downgrade in a run.
func (b *Book) Accept(runID string, d certificate.Downgrade) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepts[runID] = append(b.accepts[runID], d)
}

// Accepted implements turnover.Nodes.
func (b *Book) Accepted(_ context.Context, runID string) ([]certificate.Downgrade, error) {
	leave, err := b.enter("Accepted")
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.Clone(b.accepts[runID]), nil
}

// Certify implements turnover.Nodes.
func (b *Book) Certify(_ context.Context, c *certificate.Clean) (certificate.Verdict, error) {
	leave, err := b.enter("Certify")
	if err != nil {
		return certificate.Verdict{}, err
	}
	defer leave()
	if v, had := b.owed[c.ID]; had {
		return v, nil
	}
	c.IssuedAt = b.Now()
	file, err := certificate.Issue(c, b.ca.Statement)
	if err != nil {
		return certificate.Verdict{}, err
	}
	b.files[c.ID], b.owed[c.ID], b.of[c.ID], b.epoch[c.ID] = file, c.Verdict, c.Run.ID, c.Node.Epoch
	b.issued = append(b.issued, c.ID)
	if m := b.nodes[c.Node.ID]; m != nil && c.Run.Mode == string(turnover.Reimage) {
		m.root = false
	}
	return c.Verdict, nil
}
