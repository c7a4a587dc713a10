package maassim

import (
	"fmt"
	"slices"
	"strings"
)

// rackID is the system_id of the only rack controller.
const rackID = "rack01"

// SetRack connects or disconnects the rack controller. Without the rack controller no BMC is
// reachable and no image is known.
func (r *Region) SetRack(connected bool) {
	defer r.enter()()
	r.noRack = !connected
}

type serviceBody struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	StatusInfo string `json:"status_info"`
}

type rackBody struct {
	SystemID     string            `json:"system_id"`
	Hostname     string            `json:"hostname"`
	FQDN         string            `json:"fqdn"`
	Version      string            `json:"version"`
	NodeType     int               `json:"node_type"`
	NodeTypeName string            `json:"node_type_name"`
	Architecture string            `json:"architecture"`
	OSystem      string            `json:"osystem"`
	DistroSeries string            `json:"distro_series"`
	IPAddresses  []string          `json:"ip_addresses"`
	Services     []serviceBody     `json:"service_set"`
	TagNames     []string          `json:"tag_names"`
	Zone         poolBody          `json:"zone"`
	HardwareInfo map[string]string `json:"hardware_info"`
	ResourceURI  string            `json:"resource_uri"`
}

func (r *Region) rack() rackBody {
	b := rackBody{
		SystemID: rackID, Hostname: "rack-1", FQDN: "rack-1.maas", Version: r.Version, NodeType: 2, NodeTypeName: "Rack controller",
		Architecture: "amd64/generic", OSystem: "ubuntu", DistroSeries: "jammy", IPAddresses: r.rackAddresses(), TagNames: []string{},
		Zone:         zone,
		HardwareInfo: map[string]string{}, ResourceURI: "/MAAS/api/2.0/rackcontrollers/" + rackID + "/",
	}
	for _, name := range []string{"rackd", "tftp", "http", "dhcpd", "dhcpd6", "dns_rack", "ntp_rack", "proxy_rack", "syslog_rack"} {
		s := serviceBody{name, "running", ""}
		switch {
		case r.noRack:
			s.Status = "dead"
			if name == "rackd" {
				s.StatusInfo = "Currently not connected to any region."
			}
		case name == "dhcpd6" || (name == "dhcpd" && !r.servesAny()):
			s.Status = "off"
		}
		b.Services = append(b.Services, s)
	}
	return b
}

// rackAddresses are the first address of each subnet with DHCP.
func (r *Region) rackAddresses() []string {
	all := []string{}
	for _, s := range r.subnets {
		if r.serves(s.vlan) {
			all = append(all, s.prefix.Addr().Next().String())
		}
	}
	return all
}

func (c *call) listRacks() answer { return ok([]rackBody{c.rack()}) }

func (c *call) isRack() bool { return c.req.PathValue("rack") == rackID }

func (c *call) readRack() answer {
	if c.isRack() {
		return ok(c.rack())
	}
	return absent("RackController")
}

// Image is a boot image of the region. The name of a custom image is custom/golden at upload and
// deployment; the region lists the image as golden.
type Image struct {
	Name     string // ubuntu/jammy, custom/golden
	Base     string // of a custom image: the image whose kernel installs it; shown from 3.5 on
	Unsynced bool   // not yet on the rack controller
}

// SetImages replaces the region's images.
func (r *Region) SetImages(images ...Image) {
	defer r.enter()()
	r.Images = images
}

func (i Image) uploaded() bool  { return i.osystem() == "custom" }
func (i Image) osystem() string { os, _, _ := strings.Cut(i.Name, "/"); return os }
func (i Image) series() string  { _, series, _ := strings.Cut(i.Name, "/"); return series }

// image resolves a distro_series as deploy does.
func (r *Region) image(series string) (Image, bool) {
	if series == "" {
		series = fmt.Sprintf("%v/%v", r.settings["default_osystem"], r.settings["default_distro_series"])
	}
	i := slices.IndexFunc(r.Images, func(i Image) bool { return i.Name == series || i.series() == series })
	if i < 0 || r.Images[i].Unsynced {
		return Image{}, false
	}
	return r.Images[i], true
}

type imageBody struct {
	Name         string   `json:"name"`
	Architecture string   `json:"architecture"`
	Subarches    []string `json:"subarches"`
}

// listed returns the image's name in lists. MAAS drops custom/ at upload.
func (i Image) listed() string { return strings.TrimPrefix(i.Name, "custom/") }

// listBootImages answers with the rack controller's images. From 3.5 the answer contains the
// region's images instead and always reports that the rack is connected and synced.
func (c *call) listBootImages() answer {
	if !c.isRack() {
		return absent("RackController")
	}
	body := struct {
		Images    []imageBody `json:"images"`
		Connected bool        `json:"connected"`
		Status    string      `json:"status"`
	}{[]imageBody{}, !c.noRack, "synced"}
	if c.since("3.5") {
		body.Connected = true
	} else if c.noRack {
		body.Status = "unknown"
		return ok(body)
	}
	for _, i := range c.Images {
		if i.Unsynced && !c.since("3.5") {
			body.Status = "out-of-sync"
			continue
		}
		body.Images = append(body.Images, imageBody{i.listed(), "amd64", kernels(i)})
	}
	return ok(body)
}

// kernels are the subarchitectures of an image.
func kernels(i Image) []string {
	switch i.Name {
	case "ubuntu/jammy":
		return []string{"generic", "ga-22.04", "hwe-22.04", "hwe-p", "hwe-q", "ga-20.04"}
	case "ubuntu/noble":
		return []string{"generic", "ga-24.04", "hwe-24.04"}
	}
	return []string{"generic"}
}

type bootResourceBody struct {
	ID           int     `json:"id"`
	Type         string  `json:"type"`
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"`
	ResourceURI  string  `json:"resource_uri"`
	LastDeployed *string `json:"last_deployed"`
	Subarches    string  `json:"subarches"`
	Title        *string `json:"title,omitempty"`      // of an upload
	BaseImage    string  `json:"base_image,omitempty"` // of an upload, from 3.5 on
}

// listBootResources answers with an entry for each kernel of an imported image, sorted by name, and
// then an entry for each uploaded image.
func (c *call) listBootResources() answer {
	all := []bootResourceBody{}
	add := func(i Image, kind, subarch string) *bootResourceBody {
		n := len(all) + 1
		all = append(all, bootResourceBody{
			ID: n, Type: kind, Name: i.listed(), Architecture: "amd64/" + subarch,
			ResourceURI:  fmt.Sprintf("/MAAS/api/2.0/boot-resources/%d/", n),
			LastDeployed: c.stamp(c.deployedImages[i.Name]), Subarches: subarch,
		})
		return &all[n-1]
	}
	images := slices.SortedFunc(slices.Values(c.Images), func(a, b Image) int { return strings.Compare(a.listed(), b.listed()) })
	for _, i := range images {
		if i.uploaded() {
			continue
		}
		subarches := kernels(i)
		for _, subarch := range slices.Sorted(slices.Values(subarches[:min(len(subarches), 3)])) {
			add(i, "Synced", subarch).Subarches = strings.Join(subarches, ",")
		}
	}
	for _, i := range images {
		if !i.uploaded() {
			continue
		}
		b := add(i, "Uploaded", "generic")
		b.Title = ptr("")
		if c.since("3.5") {
			b.BaseImage = i.Base
		}
	}
	if want := c.params.Get("type"); want != "" && want != "all" {
		all = slices.DeleteFunc(all, func(b bootResourceBody) bool { return strings.ToLower(b.Type) != want })
	}
	return ok(all)
}
