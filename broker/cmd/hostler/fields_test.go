package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An empty value clears a field that an earlier update has set; it is not a parse error.
func TestAnEmptyFlagTakesBackWhatWasSaid(t *testing.T) {
	for args, want := range map[string]string{
		"sku --gpu-memory=":                 `{"gpu_memory_bytes":0}`,
		"sku --gpu-memory=192GiB":           `{"gpu_memory_bytes":206158430208}`,
		"sku --gpu-memory=big":              "--gpu-memory takes a size",
		"sku --gpu-model=":                  `{"gpu_model":""}`,
		"sku --nic=":                        `{"nics":[]}`,
		"sku --gpu-setting=ecc=":            `{"gpu_settings":{"ecc":null}}`,
		"sku --gpu-setting=partition=":      `{"gpu_settings":{"partition":""}}`,
		"sku --gpu-setting=power_limit_mw=": `{"gpu_settings":{"power_limit_mw":null}}`,
		"sku --shape=gpu_slice":             `{"shape":"gpu_slice"}`,
		"sku --allowed-count=4":             `{"allowed_counts":[4]}`,
		"sku --allowed-count=":              `{"allowed_counts":[]}`,
		"sku --allowed-count=two":           "--allowed-count takes a whole number",
		"sku --site=dc1":                    `{"sites":["dc1"]}`,
		"sku --image=":                      `{"images":[]}`,
		"sku --boot-disk-pick=":             `{"boot_disk":{"pick":""}}`,
		"site --ca-cert-file=":              `{"ca_cert":""}`,
		"site --upstream-dns-server=":       `{"upstream_dns_servers":[]}`,
		"site --commissioning-script=":      `{"commissioning_scripts":[]}`,
	} {
		words := strings.Fields(args)
		c := &cobra.Command{}
		f := map[string]func() *fields{"sku": func() *fields { return skuFields(&app{}, c) }, "site": func() *fields { return siteFields(&app{}, c) }}[words[0]]()
		if err := c.ParseFlags(words[1:]); err != nil {
			t.Fatal(err)
		}
		d, err := f.change()
		got, _ := json.Marshal(d)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}
