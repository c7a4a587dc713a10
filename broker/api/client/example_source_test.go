package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// The secret of an account at a source of artifacts is stored, and never shown again.
func ExampleClient_SetSourceCredential() {
	ctx, c := context.Background(), connect()
	kept, err := c.SetSourceCredential(ctx, "hub", api.SourceCredentialPut{Source: "huggingface:owner/model", Secret: "example", Reason: "our models"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(kept.Source, "at", kept.Endpoint)
	if _, err := c.RemoveSourceCredential(ctx, "hub", "over"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// huggingface:owner/model at https://huggingface.co
}
