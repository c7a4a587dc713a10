package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// An organisation has projects, and a project has members with SSH keys.
func ExampleClient_CreateOrganisation() {
	ctx, c := context.Background(), connect()
	if _, err := c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "acme", Reason: "contract 17"}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.CreateProject(ctx, "acme", api.ProjectCreate{Name: "lab"}); err != nil {
		log.Fatal(err)
	}
	ada, err := c.AddProjectMember(ctx, "acme/lab", api.MemberAdd{Subject: "ada", Role: "project_member"})
	if err != nil {
		log.Fatal(err)
	}
	key, err := c.AddSSHKey(ctx, ada.ID, api.SSHKeyAdd{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+cnUWlRmN2zHEA0YoR45xNpEbnrPRHFRIiTPYr/DGu ada@laptop",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ada.Subject, ada.Role, key.Type, key.Comment)

	_, err = c.EndProject(ctx, "acme/lab", "done")
	fmt.Println(err) // a project with members does not end
	// Output:
	// ada project_member ssh-ed25519 ada@laptop
	// cannot end project lab: live members: 1, allocations that have not ended: 0 (end those first)
}
