package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// Artifacts of a source need a signature by a signer that is set for it.
func ExampleClient_SetArtifactSigner() {
	ctx, c := context.Background(), connect()
	kept, err := c.SetArtifactSigner(ctx, "team", api.ArtifactSignerPut{
		Source: "oci:registry.example/models", Reason: "our models",
		Key: "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(kept.Name, "signs", kept.Source)
	if _, err := c.RemoveArtifactSigner(ctx, "team", "over", false); err != nil {
		log.Fatal(err)
	}
	// Output:
	// team signs oci:registry.example/models
}
