package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// Every change is on record, with who asked for it and why.
func ExampleClient_Audit() {
	machine("gpu-60")
	ctx, c := context.Background(), connect()
	if _, err := c.Act(ctx, "gpu-60", "quarantine", api.NodeAction{Reason: "fan 3 is loud"}); err != nil {
		log.Fatal(err)
	}
	rows, err := c.Audit(ctx, client.AuditFilter{Node: "gpu-60", Action: "node.transition", Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows.Items {
		fmt.Println(row.Actor, row.Action, row.Reason)
	}
	report, err := c.VerifyAudit(ctx) // walks the seals of all rows
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nothing was changed or removed:", report.OK)
	// Output:
	// admin node.transition fan 3 is loud
	// nothing was changed or removed: true
}
