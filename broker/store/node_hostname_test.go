package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Two brokers are asked at the same time: one call makes the node, the others learn the holder of
// the name.
func TestOfManyCreatesOfOneHostnameOneSucceeds(t *testing.T) {
	a, b, _ := replicas(t)
	const at = 6
	for round := range 10 {
		errs := make([]error, at)
		var work sync.WaitGroup
		for i := range at {
			work.Go(func() {
				db := []*store.DB{a, b}[i%2]
				_, errs[i] = db.CreateNode(t.Context(), admin, store.NewNode{ID: fmt.Sprintf("n-%d-%d", round, i), Hostname: fmt.Sprint("h", round), Site: "dc1"})
			})
		}
		work.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if broker.AsError(err).Code != "hostname_taken" {
				t.Fatalf("refused with %v", err)
			}
		}
		if made != 1 {
			t.Fatalf("%d were made", made)
		}
	}
}
