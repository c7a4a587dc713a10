package maas

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// images looks for the images of the policies, and for the base of a custom image: MAAS takes the
// kernel of the installation from the base.
func (r *Report) images(ctx context.Context, region *Region, policies []broker.Policy) {
	const name, next = "boot_image", "import or upload it in MAAS"
	all, err := call(ctx, region, "list boot images", looks, func(c *client.Client) ([]entity.BootResource, error) {
		return c.BootResources.Get(&entity.BootResourcesReadParams{})
	})
	if err != nil {
		r.add(name, Fail, "", "%v", err)
		return
	}
	find := func(image, arch string) *entity.BootResource {
		i := slices.IndexFunc(all, func(b entity.BootResource) bool {
			return listedAs(b, image) && strings.HasPrefix(b.Architecture, arch+"/")
		})
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	seen := map[string]bool{}
	for _, q := range policies {
		image, arch := broker.ImageName(q.DistroSeries), machineArch(q.Architecture)
		if seen[image+" "+arch] {
			continue
		}
		seen[image+" "+arch] = true
		got := find(image, arch)
		switch base := ""; {
		case got == nil && !strings.Contains(q.DistroSeries, "/") && find(custom+q.DistroSeries, arch) != nil:
			r.add(name, Fail, "set distro_series to "+custom+q.DistroSeries, "%s for %s is missing, and an uploaded image has this name",
				image, arch)
		case got == nil:
			r.add(name, Fail, next, "%s for %s is missing", image, arch)
		case !strings.HasPrefix(image, custom):
			r.add(name, OK, "", "%s for %s", image, arch)
		default:
			if base = taskcatalog.Clean(got.BaseImage, 64); base == "" && strings.HasPrefix(r.Version, "3.4.") {
				r.add(name, Warn, "check in MAAS that its base image is imported", "%s for %s, and MAAS %s does not list its base image",
					image, arch, r.Version)
			} else if base == "" {
				r.add(name, Warn, "upload the image with its base_image", "%s does not name its base image", image)
			} else if find(base, arch) == nil {
				r.add(name, Fail, "import "+base+" in MAAS", "the base image of %s is %s, which is missing", image, base)
			} else {
				r.add(name, OK, "", "%s for %s, based on %s", image, arch, base)
			}
		}
	}
}

func machineArch(architecture string) string {
	arch, _, _ := strings.Cut(architecture, "/")
	return arch
}

// racks checks whether MAAS can reach BMCs and serve images at all.
func (r *Report) racks(ctx context.Context, region *Region) []entity.RackController {
	const name = "rack_controllers"
	all, err := call(ctx, region, "list rack controllers", looks, func(c *client.Client) ([]entity.RackController, error) {
		return c.RackControllers.Get(&entity.RackControllersGetParams{})
	})
	if err != nil {
		r.add(name, Fail, "", "%v", err)
		return nil
	}
	var connected, lost, behind []string
	for _, rack := range all {
		who := taskcatalog.Clean(rack.Hostname, 64)
		i := slices.IndexFunc(rack.ServiceSet, func(s entity.MachineServiceSet) bool { return s.Name == "rackd" })
		if i < 0 || rack.ServiceSet[i].Status != "running" && rack.ServiceSet[i].Status != "degraded" {
			lost = append(lost, who)
			continue
		}
		connected = append(connected, who)
		if status := region.imagesOf(ctx, rack.SystemID); status != "synced" && status != "" {
			behind = append(behind, who+" ("+status+")")
		}
	}
	switch {
	case len(connected) == 0:
		r.add(name, Fail, "start maas-rackd, and check that it reaches the region",
			"none of %d rack controllers is connected: no BMC is reachable and no machine boots", len(all))
	case len(lost) > 0:
		r.add(name, Warn, "find out why they lost the connection to the region", "%s connected, %s not", strings.Join(connected, ", "),
			strings.Join(lost, ", "))
	case len(behind) > 0:
		r.add(name, Warn, "wait until their images are synced", "connected, and some images are missing: %s", strings.Join(behind, ", "))
	default:
		r.add(name, OK, "", "connected: %s", strings.Join(connected, ", "))
	}
	return all
}

// imagesOf returns the state of a rack controller's images; "": the rack controller does not say.
func (r *Region) imagesOf(ctx context.Context, rack string) string {
	if checkID("list images of a rack", rack) != nil {
		return ""
	}
	raw, err := r.raw(ctx, "list images of a rack", looks, http.MethodGet, "rackcontrollers/"+rack, "list_boot_images", nil)
	var body struct {
		Status string `json:"status"`
	}
	if err != nil || json.Unmarshal(raw, &body) != nil {
		return ""
	}
	return taskcatalog.Clean(body.Status, 32)
}

// pxe checks whether machines get an address where they boot: at the interface of the MAAS server
// if its rack reports it, by the VLAN's number otherwise.
func (r *Report) pxe(ctx context.Context, region *Region, racks []entity.RackController, policies []broker.Policy) {
	type place struct {
		iface string
		vid   int
	}
	var places []place
	for _, q := range policies {
		if p := (place{q.PXEIface, *q.PXEVLANVID}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	var fabrics []entity.Fabric
	for _, p := range places {
		var at []entity.VLAN
		for _, rack := range racks {
			for _, i := range rack.InterfaceSet {
				if i.Name == p.iface {
					at = append(at, i.VLAN)
				}
			}
		}
		if len(at) > 0 && !slices.ContainsFunc(at, func(v entity.VLAN) bool { return v.VID == p.vid }) {
			r.add("pxe_iface", Warn, "check pxe_vlan_vid and pxe_iface of the site",
				"%s of the MAAS server is on VLAN %d, and the site has VLAN %d", p.iface, at[0].VID, p.vid)
			at = nil
		}
		if len(at) == 0 {
			if fabrics == nil {
				var err error
				if fabrics, err = call(ctx, region, "list fabrics", looks,
					func(c *client.Client) ([]entity.Fabric, error) { return c.Fabrics.Get() }); err != nil {
					r.add("pxe_dhcp", Fail, "", "%v", err)
					return
				}
			}
			for _, f := range fabrics {
				at = append(at, f.VLANs...)
			}
		}
		at = slices.DeleteFunc(at, func(v entity.VLAN) bool { return v.VID != p.vid })
		r.dhcp(p.vid, at)
	}
}

func (r *Report) dhcp(vid int, at []entity.VLAN) {
	const name = "pxe_dhcp"
	served, foreign := 0, ""
	for _, v := range at {
		if v.DHCPOn || v.RelayVLAN != nil {
			served++
		}
		if v.ExternalDHCP != "" {
			foreign = taskcatalog.Clean(v.ExternalDHCP, 64)
		}
	}
	switch {
	case len(at) == 0:
		r.add(name, Fail, "set pxe_vlan_vid of the site", "MAAS knows no VLAN %d", vid)
	case served == 0:
		r.add(name, Fail, "enable MAAS's DHCP on that VLAN", "MAAS provides no DHCP on VLAN %d: no machine boots from it", vid)
	case foreign != "":
		r.add(name, Warn, "turn the other DHCP server off", "%s also serves DHCP on VLAN %d", foreign, vid)
	case served < len(at):
		r.add(name, Warn, "check that machines boot from the right VLAN", "DHCP is on in %d of %d VLANs numbered %d", served, len(at), vid)
	default:
		r.add(name, OK, "", "DHCP is on in VLAN %d", vid)
	}
}
