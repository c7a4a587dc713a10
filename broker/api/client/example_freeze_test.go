package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// While a site is frozen, no stage and no destructive task begins there.
func ExampleClient_Freeze() {
	ctx, c := context.Background(), connect()
	if _, err := c.CreateSite(ctx, client.Document{
		"name": "dc3", "region_code": "eu-3", "api_base_url": "http://maas.dc3.example:5240/MAAS", "status": "disabled",
		"pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
	}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Freeze(ctx, api.FreezePut{Site: "dc3", Reason: "work on the power"}); err != nil {
		log.Fatal(err)
	}
	status, err := c.FreezeStatus(ctx, "dc3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Frozen()) // as the last answer to a read has it
	for _, hold := range status.Holds {
		fmt.Println(hold.Site, hold.Kind, hold.Reason)
	}
	if _, err := c.Unfreeze(ctx, api.UnfreezePut{FreezePut: api.FreezePut{Site: "dc3", Reason: "done"}}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// [dc3]
	// dc3 freeze work on the power
}
