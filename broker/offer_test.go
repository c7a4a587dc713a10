package broker

import (
	"strings"
	"testing"
)

func TestASKUOffersWhatItsCatalogueEntrySays(t *testing.T) {
	metal := SKU{ID: "h100.8gpu", GPUVendor: "nvidia", GPUCount: 8, Offer: Offer{
		Shape: BareMetal, AllowedCounts: []int{1, 2, 4}, Sites: []string{"dc1", "dc2"}, Images: []string{"ubuntu/noble", "custom/rocm"},
	}}
	slice := SKU{ID: "h100.slice", GPUVendor: "nvidia", GPUCount: 8, Offer: Offer{Shape: GPUSlice, AllowedCounts: []int{1, 2}}}
	open := SKU{ID: "cpu", Offer: NewOffer()}
	for name, row := range map[string]struct {
		sku        SKU
		ask        AllocationRequest
		code, says string // empty: offered
	}{
		"two nodes":                    {metal, AllocationRequest{Nodes: 2}, "", ""},
		"site and image":               {metal, AllocationRequest{Nodes: 4, Site: "dc2", Image: "custom/rocm"}, "", ""},
		"two GPUs of a slice":          {slice, AllocationRequest{GPUs: 2, Site: "dc9"}, "", ""},
		"any count":                    {open, AllocationRequest{Nodes: 1000}, "", ""},
		"an unknown SKU":               {SKU{}, AllocationRequest{SKU: "h200", Nodes: 1}, "sku_unavailable", "cannot allocate SKU h200: there is no SKU of that id"},
		"GPUs of bare metal":           {metal, AllocationRequest{GPUs: 1}, "sku_unavailable", "offered as whole nodes (ask for nodes)"},
		"nodes of slices":              {slice, AllocationRequest{Nodes: 1}, "sku_unavailable", "offered as slices of a node (ask for gpus)"},
		"a count between":              {metal, AllocationRequest{Nodes: 3}, "sku_unavailable", "3 nodes are not offered (offered counts: 1, 2, 4)"},
		"GPUs beyond the counts":       {slice, AllocationRequest{GPUs: 4}, "sku_unavailable", "4 GPUs are not offered (offered counts: 1, 2)"},
		"more nodes than one may have": {open, AllocationRequest{Nodes: 1001}, "sku_unavailable", "at most 1000 nodes"},
		"another site":                 {metal, AllocationRequest{Nodes: 1, Site: "dc3"}, "sku_unavailable", "cannot allocate SKU : the SKU is not offered at dc3"},
		"another image":                {metal, AllocationRequest{Nodes: 1, Image: "ubuntu/jammy"}, "sku_unavailable", "image ubuntu/jammy is not offered (offered images: ubuntu/noble, custom/rocm)"},
		"an image without a choice":    {open, AllocationRequest{Nodes: 1, Image: "ubuntu/noble"}, "sku_unavailable", "no choice of image"},
		"neither nodes nor GPUs":       {metal, AllocationRequest{}, "allocation_invalid", "0 nodes and 0 gpus"},
		"nodes and GPUs":               {metal, AllocationRequest{Nodes: 1, GPUs: 1}, "allocation_invalid", "1 nodes and 1 gpus"},
		"GPUs beyond a node's":         {SKU{ID: "s", GPUCount: 8, Offer: Offer{Shape: GPUSlice}}, AllocationRequest{GPUs: 9}, "sku_unavailable", "at most 8 GPUs"},
		"less than no GPU":             {slice, AllocationRequest{GPUs: -1}, "allocation_invalid", "-1 gpus"},
		"less than no node":            {metal, AllocationRequest{Nodes: -1}, "allocation_invalid", "-1 nodes"},
	} {
		err := row.sku.Offers(row.ask)
		if row.code == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || AsError(err).Code != row.code || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "dc1") {
			t.Errorf("%s: %v, want %s %q", name, err, row.code, row.says)
		}
	}
}

func TestAnOfferThatNobodyCanAskForIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*SKU)
		says   string
	}{
		"a shape":             {func(s *SKU) { s.Offer.Shape = "vm" }, `shape "vm" is neither`},
		"slices without GPUs": {func(s *SKU) { s.GPUVendor, s.GPUModel, s.GPUCount, s.Offer.Shape = "", "", 0, GPUSlice }, "needs machines with GPUs"},
		"a count of none":     {func(s *SKU) { s.Offer.AllowedCounts = []int{0} }, "allowed_counts has 0"},
		"a count twice":       {func(s *SKU) { s.Offer.AllowedCounts = []int{2, 2} }, "listed twice"},
		"more GPUs than has":  {func(s *SKU) { s.Offer.Shape, s.Offer.AllowedCounts = GPUSlice, []int{9} }, "not between 1 and 8"},
		"more nodes than may": {func(s *SKU) { s.Offer.AllowedCounts = []int{1001} }, "not between 1 and 1000"},
		"many counts":         {func(s *SKU) { s.Offer.AllowedCounts = make([]int, 101) }, "at most 100 entries"},
		"no site's name":      {func(s *SKU) { s.Offer.Sites = []string{"DC 1"} }, `sites has "DC 1"`},
		"a site's id":         {func(s *SKU) { s.Offer.Sites = []string{"6f1c0f9e-7d0b-4a55-9c57-2f3f3f0f7f10"} }, "not a site's name"},
		"many sites":          {func(s *SKU) { s.Offer.Sites = make([]string, 101) }, "at most 100 entries"},
		"many images":         {func(s *SKU) { s.Offer.Images = make([]string, 101) }, "at most 100 entries"},
		"an image twice":      {func(s *SKU) { s.Offer.Images = []string{"custom/x", "custom/x"} }, "listed twice"},
		"a site twice":        {func(s *SKU) { s.Offer.Sites = []string{"dc1", "dc1"} }, "listed twice"},
		"no image's name":     {func(s *SKU) { s.Offer.Images = []string{"../x"} }, `images has "../x"`},
	} {
		s := NewSKU()
		s.ID, s.GPUVendor, s.GPUModel, s.GPUCount = "mi300x.192g.8gpu", "amd", "MI300X", 8
		row.change(&s)
		if err := s.Check(); err == nil || AsError(err).Code != "sku_invalid" || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", name, err, row.says)
		}
	}
}
