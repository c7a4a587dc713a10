package onboardingtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Reseeds returns under how many keys a node's agent was asked to reseed.
func (b *Book) Reseeds(nodeID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.nodes {
		if e.ID == nodeID {
			return len(e.reseeds)
		}
	}
	return 0
}

// Seeded returns the token that a node's agent was given last.
func (b *Book) Seeded(nodeID string) taskcatalog.MAASMachineToken {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.nodes {
		if e.ID == nodeID {
			return e.seeded
		}
	}
	return taskcatalog.MAASMachineToken{}
}

// Reports sets the capabilities that agents report, now and when they enrol.
func (b *Book) Reports(capabilities map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = maps.Clone(capabilities)
	for _, e := range b.nodes {
		e.Capabilities = maps.Clone(capabilities)
	}
}

// Come enrols the agent that an operator has installed.
func (b *Book) Come(nodeID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID && e.Status != broker.Deleted }); e != nil {
		e.Epoch++
	}
}

// Reseed implements onboarding.Nodes: the task has ended at the second call.
func (b *Book) Reseed(_ context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, _ time.Duration) (bool, error) {
	leave, err := b.enter("Reseed")
	if err != nil {
		return false, err
	}
	defer leave()
	if _, err := token.Rack(); err != nil {
		return false, err
	}
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil {
		return false, notFound(nodeID)
	}
	if e.reseeds == nil {
		e.reseeds = map[string]int{}
	}
	e.seeded = token
	e.reseeds[key]++
	return e.reseeds[key] > 1, nil
}

// Diagnose implements onboarding.Nodes: the task is recorded, and nobody waits for its result.
func (b *Book) Diagnose(_ context.Context, key, nodeID, runID string) (string, error) {
	leave, err := b.enter("Diagnose")
	if err != nil {
		return "", err
	}
	defer leave()
	e := b.find(func(e *entry) bool { return e.ID == nodeID })
	if e == nil || e.Epoch == 0 {
		return "", notFound(nodeID)
	}
	if e.asked == nil {
		e.asked = map[string]string{}
	}
	if e.asked[key] == "" {
		e.asked[key] = fmt.Sprintf("t-%s-%d", runID, len(e.asked)+1)
	}
	return e.asked[key], nil
}

// Diagnosed lists the keys under which a node's agent was asked for its diagnostics.
func (b *Book) Diagnosed(nodeID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		return slices.Sorted(maps.Keys(e.asked))
	}
	return nil
}
