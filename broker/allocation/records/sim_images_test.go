//go:build !race

package records

import (
	"context"
	"math/rand/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// skuImages are the images of the SKU. In a fifth of the seeds projects ask for them. They are drawn apart:
// other seeds play as they did.
var skuImages = []string{"ubuntu/noble", "custom/rocm"}

// wantsImage draws the image of a request; empty: none.
func (s *simulation) wantsImage() string {
	if s.imagesBy == nil {
		s.imagesBy = rand.New(rand.NewPCG(s.seed, 17))
		s.images = s.imagesBy.IntN(5) == 0
	}
	if !s.images {
		return ""
	}
	return append([]string{""}, skuImages...)[s.imagesBy.IntN(3)]
}

// askWithImage makes an allocation. This site has no MAAS, and a soft reset stands in for a reimage: only to the
// placement the nodes are machines of MAAS.
func (s *simulation) askWithImage(actor broker.Actor, n store.NewAllocation) (broker.Allocation, error) {
	if n.Image == "" {
		return s.db.CreateAllocation(ctx, actor, n)
	}
	s.sql(`UPDATE nodes SET maas_system_id = 'abc123'`)
	defer s.sql(`UPDATE nodes SET maas_system_id = ''`)
	return s.db.CreateAllocation(ctx, actor, n)
}

func (m mortalRecords) HaveImage(ctx context.Context, a broker.Allocation) (have map[string]bool, err error) {
	err = m.b.call(func() error { have, err = m.Records.HaveImage(ctx, a); return err })
	return have, err
}

// Install begins a turnover after which the node has the image.
func (m mortalRecords) Install(ctx context.Context, a broker.Allocation, nodeID string) (waits string, err error) {
	err = m.b.call(func() error {
		waits, err = m.Records.TurnOver(ctx, a, nodeID, "image "+a.Image, "")
		if err == nil && waits == "" {
			m.b.s.machine(nodeID).toInstall = a.Image
			m.b.s.say("node %s is reimaged for %s with %s", nodeID, a.ID, a.Image)
		}
		return err
	})
	return waits, err
}

// installed is the end of a turnover that stands in for a reimage.
func (s *simulation) installed(nodeID, runID string) {
	m := s.machine(nodeID)
	if m.toInstall == "" {
		return
	}
	n, err := s.db.Node(ctx, nodeID)
	s.must(err)
	s.must(s.db.RecordImage(ctx, broker.System, nodeID, n.Epoch, broker.NodeImage{Name: m.toInstall, RunID: runID}))
	m.image, m.toInstall = m.toInstall, ""
	s.counts["images installed"]++
}
