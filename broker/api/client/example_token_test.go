package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// An operator, or a program, has a token with a role, for some sites or for all.
func ExampleClient_CreateToken() {
	ctx, c := context.Background(), connect()
	made, err := c.CreateToken(ctx, api.TokenCreate{Name: "allocator", Role: "operator", Sites: []string{"dc1"}, Reason: "new program"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.Token.Name, made.Token.Role, made.Secret != "") // made.Secret is shown only here

	if _, err := c.RevokeToken(ctx, "allocator", "replaced"); err != nil {
		log.Fatal(err)
	}
	list, err := c.Tokens(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range list.Items {
		fmt.Println(t.Name, "revoked:", !t.RevokedAt.IsZero())
	}
	// Output:
	// allocator operator true
	// admin revoked: false
	// allocator revoked: true
}

// A machine enrols with a one-time token. The token in a machine's user-data gets more time.
func ExampleClient_ExtendToken() {
	ctx, c := context.Background(), connect()
	made, err := c.CreateNode(ctx, api.NodeCreate{Hostname: "gpu-50", Site: "dc1", TTLSeconds: 3600})
	if err != nil {
		log.Fatal(err)
	}
	token, err := c.ExtendToken(ctx, "gpu-50", api.TokenRequest{TTLSeconds: 7200, Reason: "the rack has no power yet"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token.Extensions, token.ExpiresAt.After(made.ExpiresAt))
	// Output: 1 true
}
