package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func skuCommand(a *app) *cobra.Command {
	return noun("sku", "kinds of machines: their parts and required settings", "  hostler sku show mi300x.192g.8gpu",
		skuCreateCommand(a), skuListCommand(a), skuShowCommand(a), skuUpdateCommand(a))
}

// skuFields are the flags of create and update.
func skuFields(a *app, c *cobra.Command) *fields {
	f := fieldsOf(c)
	f.text("description", "description", "description of the SKU")
	f.text("gpu-vendor", "gpu_vendor", "nvidia or amd")
	f.text("gpu-model", "gpu_model", "`MODEL`: whole words of the name that the vendor's library gives, such as H200 or A100-SXM4-80GB")
	f.number("gpu-count", "gpu_count", "number of GPUs")
	memory := c.Flags().String("gpu-memory", "", "memory of each GPU: `SIZE`, such as 192GiB; empty: any")
	f.on("gpu-memory", func(d client.Document) error {
		if *memory == "" {
			d["gpu_memory_bytes"] = 0
			return nil
		}
		n, err := humanize.ParseBytes(*memory)
		if err != nil {
			return usage("--gpu-memory takes a size such as 192GiB, or nothing for any")
		}
		d["gpu_memory_bytes"] = n
		return nil
	})
	f.list("nic", "nics", "network `INTERFACE` that must exist")
	pattern := c.Flags().String("boot-disk-pattern", "", "regular expression for model, name or id_path of the boot disk, ignoring case")
	f.on("boot-disk-pattern", func(d client.Document) error { inside(d, "boot_disk")["pattern"] = *pattern; return nil })
	pick := c.Flags().String("boot-disk-pick", "", "choice among several matching disks: smallest, largest or first; empty: none")
	f.on("boot-disk-pick", func(d client.Document) error { inside(d, "boot_disk")["pick"] = *pick; return nil })
	settings := c.Flags().StringArray("gpu-setting", nil, "wanted setting of every GPU, `NAME=VALUE` (may be repeated)")
	f.on("gpu-setting", func(d client.Document) error {
		return setKnobs(inside(d, "gpu_settings"), knobsOf[taskcatalog.GPUSettings](), *settings)
	})
	coverage := c.Flags().Float64("scrub-min-coverage", 0, "minimum share of the memory that a scrub must reach, in percent")
	f.on("scrub-min-coverage", func(d client.Document) error {
		inside(d, "scrub_floor")["min_coverage_percent"] = *coverage
		return nil
	})
	reset := c.Flags().Bool("scrub-require-reset", false, "a scrub must prove a reset of the GPU")
	f.on("scrub-require-reset", func(d client.Document) error { inside(d, "scrub_floor")["require_reset"] = *reset; return nil })
	dpu := c.Flags().Bool("dpu-emulated-disks", false,
		"accept disks that a DPU presents to the machine; an erase reaches only as far as the DPU lets it")
	f.on("dpu-emulated-disks", func(d client.Document) error { d["dpu_emulated_disks"] = *dpu; return nil })
	f.text("shape", "shape", "what a tenant gets: baremetal (whole nodes) or gpu_slice (GPUs of one node)")
	f.numbers("allowed-count", "allowed_counts", "`COUNT` of nodes, or of GPUs of a slice, that a tenant may ask for")
	f.list("site", "sites", "`SITE` where the SKU is offered")
	f.list("image", "images", "`IMAGE` that a tenant may choose, such as ubuntu/noble")
	bindingFlags(a, f)
	f.reason()
	return f
}

// inside is the object at a field of a document.
func inside(d client.Document, field string) client.Document {
	o, _ := d[field].(client.Document)
	if o == nil {
		o = client.Document{}
		d[field] = o
	}
	return o
}

func skuCreateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create SKU", Short: "create a SKU", Args: exactly("SKU"),
		Long: `Create a SKU: the parts and settings of a kind of machine. An onboarding that names
an unknown SKU is refused; an onboarding stops for an operator if the machine does
not match its SKU.

Settings of GPUs: partition, memory_partition, compute_mode, clocks, power_limit_mw,
ecc, persistence, isolation. A setting that is not named may have any value.

Shape, allowed counts, sites and images are the SKU's entry in the catalogue: what a
tenant may ask for. Without them, the SKU is offered as whole nodes, in any count, at
all sites, without a choice of image.`,
		Example: "  hostler sku create mi300x.192g.8gpu --gpu-vendor amd --gpu-model MI300X --gpu-count 8 --gpu-memory 192GiB --nic enp28s0np0 --gpu-setting partition=SPX --boot-disk-pick smallest",
	}
	f := skuFields(a, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.document()
		if err != nil {
			return err
		}
		d["id"] = args[0]
		remote, err := a.connect()
		if err != nil {
			return err
		}
		s, err := remote.CreateSKU(c.Context(), d)
		if err != nil {
			return err
		}
		return a.showSKU(s)
	}
	return c
}

func skuUpdateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "update SKU", Short: "change a SKU", Args: exactly("SKU"),
		Example: `  hostler sku update mi300x.192g.8gpu --scrub-min-coverage 98 --scrub-require-reset
  hostler sku update mi300x.192g.8gpu --allowed-count 1 --allowed-count 2 --site dc1 --image ubuntu/noble
  hostler sku update mi300x.192g.8gpu --on-begin allocation.runtime.provision@v1 --on-end allocation.runtime.deprovision@v1`,
	}
	f := skuFields(a, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.change()
		if err != nil {
			return err
		}
		remote, err := a.connect()
		if err != nil {
			return err
		}
		s, err := remote.UpdateSKU(c.Context(), args[0], d)
		if err != nil {
			return err
		}
		return a.showSKU(s)
	}
	return c
}

func skuListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the SKUs", Args: exactly(), Example: "  hostler sku list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.SKUs(c.Context())
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, s := range l.Items {
				names = append(names, s.ID)
				rows = append(rows, []string{
					s.ID, gpusOf(s), s.Shape, cmp.Or(strings.Join(s.Sites, ", "), "all"),
					strconv.Itoa(len(s.NICs)), s.BootDisk.Pattern, s.Description,
				})
			}
			return a.show(l, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("SKU"), render.Keep("GPUS"), render.Keep("SHAPE"), render.More("SITES"), render.More("NICS"), render.More("BOOT DISK"),
					render.Main("DESCRIPTION"),
				}, rows)
				if len(rows) == 0 {
					a.note("no SKUs (create one: hostler sku create)")
				}
			})
		},
	}
}

func gpusOf(s api.SKU) string {
	if s.GPUCount == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d × %s %s", s.GPUCount, s.GPUVendor, s.GPUModel)
	if s.GPUMemoryBytes > 0 {
		text += ", " + bytesText(&s.GPUMemoryBytes) + " each"
	}
	return text
}

// offeredCounts lists the counts that a SKU is offered in, with their unit; empty: any.
func offeredCounts(s api.SKU) string {
	if len(s.AllowedCounts) == 0 {
		return ""
	}
	unit := " nodes"
	if s.Shape == "gpu_slice" {
		unit = " GPUs"
	}
	texts := make([]string, len(s.AllowedCounts))
	for i, n := range s.AllowedCounts {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ") + unit
}

func skuShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SKU", Short: "show a SKU", Args: exactly("SKU"),
		Example: "  hostler sku show mi300x.192g.8gpu",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.SKU(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showSKU(s)
		},
	}
}

func (a *app) showSKU(s *api.SKU) error {
	return a.show(s, []string{s.ID}, func(p *render.Page) {
		pick := "if it is the only one that matches"
		if s.BootDisk.Pick != "" {
			pick = "the " + s.BootDisk.Pick + " that matches"
		}
		coverage := "the vendor's default"
		if s.ScrubFloor.MinCoveragePercent > 0 {
			coverage = fmt.Sprint(s.ScrubFloor.MinCoveragePercent) + "%"
		}
		p.Fields("sku", s.ID, "description", s.Description, "gpus", gpusOf(*s), "nics", strings.Join(s.NICs, ", "),
			"boot disk", s.BootDisk.Pattern+" ("+pick+")", "least scrub coverage", coverage,
			"reset must be proven", render.YesNo(s.ScrubFloor.RequireReset), "disks shown by a DPU", render.YesNo(s.DPUDisks),
			"shape", s.Shape, "offered counts", cmp.Or(offeredCounts(*s), "any"), "offered at", cmp.Or(strings.Join(s.Sites, ", "), "all sites"),
			"images", cmp.Or(strings.Join(s.Images, ", "), "whatever the nodes have, without a choice"),
			"on begin", boundText(s.OnBegin, "what the project names"), "on end", boundText(s.OnEnd, "what the project names"),
			"created", moment(a, s.CreatedAt), "changed", moment(a, s.UpdatedAt))
		pairs(p, "Wanted settings of every GPU", settingsOf(s.GPUSettings))
		a.noteJudgedLater(s.JudgedLater)
	})
}

// settingsOf lists the given settings by their names in the API.
func settingsOf(s taskcatalog.GPUSettings) map[string]string {
	out := map[string]string{}
	for name, value := range map[string]string{
		"partition": s.Partition, "memory_partition": s.MemoryPartition,
		"compute_mode": s.ComputeMode, "clocks": s.Clocks,
	} {
		if value != "" {
			out[name] = value
		}
	}
	if s.PowerLimitMW != nil {
		out["power_limit_mw"] = strconv.FormatUint(*s.PowerLimitMW, 10)
	}
	for name, value := range map[string]*bool{"ecc": s.ECC, "persistence": s.Persistence, "isolation": s.Isolation} {
		if value != nil {
			out[name] = render.YesNo(*value)
		}
	}
	return out
}
