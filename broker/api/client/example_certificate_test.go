package client_test

import (
	"context"
	"fmt"
	"log"
)

// The certificates of a node, newest first. The file of one is what hostler-verify checks.
func ExampleClient_CleanCertificates() {
	node := certified()
	ctx, c := context.Background(), connect()
	list, err := c.CleanCertificates(ctx, node)
	if err != nil {
		log.Fatal(err)
	}
	newest := list.Items[0]
	fmt.Println(newest.Mode, newest.AllocationID, "meets the policy:", newest.MeetsPolicy)

	whole, err := c.CleanCertificate(ctx, newest.CertificateID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a signed file:", len(whole.File) > 0)
	// Output:
	// full_decommission a-7 meets the policy: false
	// a signed file: true
}

// The receipt is the tenant's version of a certificate. It names nothing that belongs to the
// operator.
func ExampleClient_Receipt() {
	node := certified()
	ctx, c := context.Background(), connect()
	list, err := c.CleanCertificates(ctx, node)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := c.Receipt(ctx, list.Items[0].CertificateID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.AllocationID, receipt.Digest != list.Items[0].Digest)
	// Output: a-7 true
}

// A trust file holds the keys that certificates, receipts and evidence are checked with.
func ExampleClient_Trust() {
	trust, err := connect().Trust(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range trust.Keys {
		if key.Use == "statement" {
			fmt.Println("certificates are signed by a key in force:", key.InForce)
		}
	}
	// Output: certificates are signed by a key in force: true
}
