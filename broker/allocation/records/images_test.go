package records

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// withImages makes a site with two nodes that are machines of MAAS. The first has the image.
func (s *site) withImages(image string) func(*store.NewAllocation) {
	s.Helper()
	s.inMAAS = true
	s.limited(2, 2)
	_, err := s.db.UpdateSKU(s.Context(), ada, "h100", "test", func(k *broker.SKU) error {
		k.Offer.Images = []string{image}
		return nil
	})
	s.ok(err)
	_, err = s.db.UpdateProfile(s.Context(), ada, "s-dc1", "", "test", func(p *broker.Profile) error {
		p.Policy.AcceptSystemDisk = true // a soft reset is enough between two tenants
		return nil
	})
	s.ok(err)
	s.ok(s.db.RecordImage(s.Context(), ada, "n-0", 1, broker.NodeImage{Name: image, RunID: "r-0"}))
	return func(n *store.NewAllocation) { n.Image = image }
}

// A node without the image is reimaged by a run of its own while the allocation holds it, and only that
// node. The certificate of the reimage does not end the allocation later.
func TestAnImageIsInstalledOnTheWay(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		a := s.ask("a-1", 2, s.withImages("custom/rocm"))
		s.settle()
		s.stands("a-1", broker.AllocationActive, "")
		all, err := s.db.Runs(s.Context(), chain.Filter{Kind: turnover.Reimage.Kind(), Limit: 10})
		s.ok(err)
		if len(all) != 1 || !strings.HasPrefix(all[0].ID, "image-n-1-") || all[0].CorrelationID != a.ID || all[0].Status != chain.Completed {
			s.Fatalf("reimages: %+v", all)
		}
		var state turnover.Turnover
		if s.ok(json.Unmarshal(all[0].State, &state)); state.Image != "custom/rocm" || state.Mode != turnover.Reimage {
			s.Errorf("the reimage is %+v", state)
		}
		for _, n := range a.NodeIDs {
			if i, err := s.db.NodeImage(s.Context(), n); err != nil || i.Name != "custom/rocm" {
				s.Errorf("node %s has %+v, %v", n, i, err)
			}
		}
		s.release("a-1")
		s.settle()
		s.stands("a-1", broker.AllocationReleased, "")
		ended, err := s.db.Allocation(s.Context(), "a-1")
		s.ok(err)
		for _, id := range ended.CertificateIDs {
			if len(ended.CertificateIDs) != 2 || !strings.HasPrefix(id, "c-release-") {
				s.Errorf("the certificates are %v", ended.CertificateIDs)
			}
		}
		s.ask("a-2", 2, func(n *store.NewAllocation) { n.Image = "custom/rocm" })
		s.settle()
		s.stands("a-2", broker.AllocationActive, "") // without another reimage
		if all, err := s.db.Runs(s.Context(), chain.Filter{Kind: turnover.Reimage.Kind(), Limit: 10}); err != nil || len(all) != 1 {
			s.Errorf("%d reimages, %v", len(all), err)
		}
	})
}

// A reimage whose certificate does not meet the policy ends the allocation, and its node is nobody's.
func TestAnImageWithoutACertificateEndsTheAllocation(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.ask("a-1", 2, s.withImages("custom/rocm"))
		s.certified = false
		s.settle()
		s.stands("a-1", broker.AllocationFailed, "image_not_installed")
		if len(s.asked) > 0 {
			s.Errorf("the nodes were asked for %v", s.asked)
		}
		for id, free := range map[string]bool{"n-0": true, "n-1": false} {
			n, err := s.db.Node(s.Context(), id)
			s.ok(err)
			h, err := s.db.Handout(s.Context(), n)
			s.ok(err)
			if all := h.Reasons("", ""); (len(all) == 0) != free {
				s.Errorf("against node %s: %+v", id, all)
			}
		}
	})
}
