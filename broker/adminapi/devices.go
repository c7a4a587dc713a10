package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

func (a *API) listDevices(ctx context.Context, in *nodePageInput) (*api.NodeDeviceList, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.Devices(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	out := &api.NodeDeviceList{NodeID: n.ID, Items: deviceResources(all)}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(d api.NodeDevice) string { return d.Kind + "/" + d.ID })
}

type acceptDevicesInput struct {
	NodeInput
	Body api.DeviceAccept
}

// acceptDevices records a person's statement that a part was replaced. The acceptance does not
// bring the node into service; that is a separate decision.
func (a *API) acceptDevices(ctx context.Context, in *acceptDevicesInput) (*api.NodeDeviceList, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "node.devices.accept", "node/"+n.ID, "accept parts of node "+n.ID)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.AcceptDevices(ctx, callerOf(ctx).actor(), n.ID, in.Body.Devices, in.Body.System, reason)
	if err != nil {
		return nil, err
	}
	return &api.NodeDeviceList{NodeID: n.ID, Items: deviceResources(all)}, nil
}

func deviceResources(all []broker.Device) []api.NodeDevice {
	out := []api.NodeDevice{}
	for _, d := range all {
		out = append(out, api.NodeDevice{
			Kind: string(d.Kind), ID: d.ID, Serial: d.Serial, Model: d.Model, Place: d.Place, SizeBytes: d.Size,
			Role: string(d.Role), Transport: d.Transport, State: string(d.State), Source: d.Source, Since: d.Since, Reason: d.Reason,
		})
	}
	return out
}
