package adminapi

import (
	"cmp"
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// SKUInput names a SKU.
type SKUInput struct {
	SKU string `path:"sku" maxLength:"63"`
}

func (a *API) listSKUs(ctx context.Context, in *PageInput) (*api.SKUList, error) {
	all, err := a.c.DB.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.SKUList{Items: make([]api.SKU, len(all))}
	for i, s := range all {
		out.Items[i] = skuResource(s)
	}
	return out, cut(*in, &out.Items, &out.Next, func(s api.SKU) string { return s.ID })
}

func (a *API) showSKU(ctx context.Context, in *SKUInput) (*api.SKU, error) {
	s, err := a.c.DB.SKU(ctx, in.SKU)
	if err != nil {
		return nil, err
	}
	out := skuResource(s)
	return &out, nil
}

type createSKUInput struct {
	Body overlay[api.SKUConfig]
}

func (a *API) createSKU(ctx context.Context, in *createSKUInput) (*api.SKU, error) {
	c, err := in.Body.over(skuConfig(broker.NewSKU()))
	if err != nil {
		return nil, err
	}
	later, err := a.checkBindings(ctx, broker.Place{}, c.ID, c.OnBegin, c.OnEnd)
	if err != nil {
		return nil, err
	}
	s, err := a.c.DB.CreateSKU(withReason(ctx, c.Reason), callerOf(ctx).actor(), skuOf(c))
	if err != nil {
		return nil, err
	}
	out := skuResource(s)
	out.JudgedLater = later
	return &out, nil
}

type updateSKUInput struct {
	SKUInput
	Body overlay[api.SKUConfig]
}

func (a *API) updateSKU(ctx context.Context, in *updateSKUInput) (*api.SKU, error) {
	said, err := in.Body.over(api.SKUConfig{}) // what the request itself says
	if err != nil {
		return nil, err
	}
	later, err := a.checkBindings(ctx, broker.Place{}, in.SKU, said.OnBegin, said.OnEnd)
	if err != nil {
		return nil, err
	}
	s, err := a.c.DB.UpdateSKU(ctx, callerOf(ctx).actor(), in.SKU, taskcatalog.Clean(said.Reason, 500), func(s *broker.SKU) error {
		c, err := in.Body.over(skuConfig(*s))
		if err != nil {
			return err
		}
		if c.Shape != string(s.Offer.Shape) && len(c.AllowedCounts) > 0 && len(said.AllowedCounts) == 0 {
			return broker.Errorf(broker.Invalid, "sku_invalid",
				"cannot change SKU %s: allowed_counts %v count nodes of a baremetal SKU, and GPUs of a gpu_slice SKU (give allowed_counts with the shape)",
				s.ID, c.AllowedCounts)
		}
		// Inputs belong to the operation that they were given with.
		c.OnBegin, c.OnEnd = cmp.Or(said.OnBegin, c.OnBegin), cmp.Or(said.OnEnd, c.OnEnd)
		created := s.CreatedAt
		*s = skuOf(c)
		s.CreatedAt = created
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := skuResource(s)
	out.JudgedLater = later
	return &out, nil
}

func skuOf(c api.SKUConfig) broker.SKU {
	return broker.SKU{
		ID: c.ID, Description: c.Description, GPUVendor: c.GPUVendor, GPUModel: c.GPUModel, GPUCount: c.GPUCount,
		GPUMemoryBytes: c.GPUMemoryBytes, NICs: c.NICs,
		BootDisk:    broker.BootDiskRule{Pattern: c.BootDisk.Pattern, Pick: broker.BootDiskPick(c.BootDisk.Pick)},
		GPUSettings: c.GPUSettings, ScrubFloor: broker.ScrubFloor(c.ScrubFloor), DPUDisks: c.DPUDisks,
		Offer:    broker.Offer{Shape: broker.SKUShape(c.Shape), AllowedCounts: c.AllowedCounts, Sites: c.Sites, Images: c.Images},
		Bindings: broker.OperationBindings{OnBegin: boundOf(c.OnBegin), OnEnd: boundOf(c.OnEnd)},
	}
}

func skuConfig(s broker.SKU) api.SKUConfig {
	return api.SKUConfig{
		ID: s.ID, Description: s.Description, GPUVendor: s.GPUVendor, GPUModel: s.GPUModel, GPUCount: s.GPUCount,
		GPUMemoryBytes: s.GPUMemoryBytes, NICs: s.NICs,
		BootDisk:    api.BootDiskRule{Pattern: s.BootDisk.Pattern, Pick: string(s.BootDisk.Pick)},
		GPUSettings: s.GPUSettings, ScrubFloor: api.ScrubFloor(s.ScrubFloor), DPUDisks: s.DPUDisks,
		Shape: string(s.Offer.Shape), AllowedCounts: s.Offer.AllowedCounts, Sites: s.Offer.Sites, Images: s.Offer.Images,
		OnBegin: boundResource(s.Bindings.OnBegin), OnEnd: boundResource(s.Bindings.OnEnd),
	}
}

func skuResource(s broker.SKU) api.SKU {
	return api.SKU{SKUConfig: skuConfig(s), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt}
}
