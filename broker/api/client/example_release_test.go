package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// A package is what a machine's first boot installs. The broker checks the digest.
func ExampleClient_PublishAgent() {
	ctx, c := context.Background(), connect()
	deb := []byte("a Debian package")
	sum := sha256.Sum256(deb)
	release, err := c.PublishAgent(ctx, hex.EncodeToString(sum[:]), api.AgentRelease{
		Version: "1.4.0", Arch: "amd64", Filename: "hostler-agent_1.4.0_amd64.deb", Size: int64(len(deb)),
	}, bytes.NewReader(deb))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(release.Kind, release.Version, release.UploadedBy)
	// Output: package 1.4.0 admin
}

// Signed releases are what nodes update themselves to.
func ExampleClient_AgentReleases() {
	published()
	list, err := connect().AgentReleases(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range list.Items {
		if r.Kind == "signed" {
			fmt.Println(r.Version, r.Channel, r.Statement.Arch)
		}
	}
	// Output: 1.5.0 stable amd64
}
