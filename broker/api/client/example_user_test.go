package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A tenant is let in, and later the tenant's user is removed. Both are tasks.
func ExampleClient_Enqueue_user() {
	machine("gpu-20", "allocation.provision_user", "allocation.revoke_user")
	ctx, c := context.Background(), connect()
	run := func(kind, key string, params map[string]any) *api.Task {
		raw, err := json.Marshal(params)
		if err != nil {
			log.Fatal(err)
		}
		task, err := c.Enqueue(ctx, "gpu-20", api.TaskCreate{Type: kind, Params: raw, IdempotencyKey: key})
		for err == nil && !task.Ended {
			task, err = c.Follow(ctx, task.ID, task.Progress, 30*time.Second)
		}
		if err != nil {
			log.Fatal(err)
		}
		return task
	}
	in := run("allocation.provision_user", "a-42-in", map[string]any{
		"allocation_id": "a-42", "username": "ann", "tenant": "example",
		"ssh_keys": []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g ann"},
	})
	fmt.Println(in.Type, in.Status)
	out := run("allocation.revoke_user", "a-42-out", map[string]any{"allocation_id": "a-42", "username": "ann"})
	fmt.Println(out.Type, out.Status)
	// Output:
	// allocation.provision_user succeeded
	// allocation.revoke_user succeeded
}

// A node that may not be handed out refuses the tenant's user, with the code of the reason.
func ExampleClient_Enqueue_refused() {
	machine("gpu-21")
	ctx, c := context.Background(), connect()
	if _, err := c.Act(ctx, "gpu-21", "quarantine", api.NodeAction{Reason: "fan 3 is loud"}); err != nil {
		log.Fatal(err)
	}
	_, err := c.Enqueue(ctx, "gpu-21", api.TaskCreate{Type: "allocation.provision_user", Params: json.RawMessage(
		`{"allocation_id":"a-43","username":"bob","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g bob"]}`,
	)})
	fmt.Println(client.Code(err))
	// Output: node_status
}
