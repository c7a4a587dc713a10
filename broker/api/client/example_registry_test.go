package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// The broker tries an account at its registry before the broker keeps the account.
func ExampleClient_SetRegistryCredential() {
	ctx, c := context.Background(), connect()
	_, err := c.SetRegistryCredential(ctx, "127.0.0.1:1", api.RegistryCredentialPut{Username: "hostler", Password: "example", PlainHTTP: true, Reason: "the mirror"})
	fmt.Println(client.Code(err))
	kept, err := c.RegistryCredentials(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(kept.Items), "accounts")
	// Output:
	// registry_unreachable
	// 0 accounts
}
