package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api/client"
)

// A document has the fields of api.SiteConfig by their names in JSON. Left out fields take the
// defaults.
func ExampleClient_CreateSite() {
	ctx, c := context.Background(), connect()
	site, err := c.CreateSite(ctx, client.Document{
		"name": "dc2", "region_code": "eu-2", "api_base_url": "http://maas.dc2.example:5240/MAAS", "status": "disabled",
		"pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(site.Name, site.Status, site.DistroSeries)

	list, err := c.Sites(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range list.Items {
		if s.RegionCode == "eu-2" {
			fmt.Println("listed:", s.Name)
		}
	}
	// Output:
	// dc2 disabled ubuntu/noble
	// listed: dc2
}

// A probe checks what a site needs before work begins there.
func ExampleClient_ProbeSite() {
	probe, err := connect().ProbeSite(context.Background(), "dc1", "")
	if err != nil {
		log.Fatal(err)
	}
	for _, check := range probe.Checks {
		if check.Status == "fail" {
			fmt.Println(check.Check, check.NextStep)
		}
	}
	fmt.Println(probe.Site, "has MAAS", probe.MAASVersion)
	// Output: dc1 has MAAS 3.6.5
}

// A SKU describes the parts of one kind of machine.
func ExampleClient_CreateSKU() {
	sku, err := connect().CreateSKU(context.Background(), client.Document{
		"id": "mi300x.8gpu", "gpu_vendor": "amd", "gpu_model": "MI300X", "gpu_count": 8, "nics": []string{"eno8303"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sku.ID, sku.GPUCount, "times", sku.GPUModel)
	// Output: mi300x.8gpu 8 times MI300X
}
