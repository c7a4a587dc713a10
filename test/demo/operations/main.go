package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo-operations",
		"A machine is made ready for work by operations: signed plans, step by step. The Slurm cluster is real, the machine is a QEMU guest.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A Slurm cluster, a broker, and a node", Play: d.node},
				{Title: "The machine joins the cluster", Play: d.join},
				{Title: "A job runs there", Play: d.job},
				{Title: "A model is staged: the connection is cut, and the address expires", Play: d.stage},
				{Title: "What nobody signed is refused", Play: d.refused},
				{Title: "The node leaves the cluster", Play: d.leave},
				{Title: "Proof, without the broker", Play: d.proof},
			}
			return scenes, []string{
				"docs/how-to/operations.md", "how operations run, also in batches and by themselves",
				"docs/how-to/clusters.md", "clusters, and what a node does to join and to leave",
				"docs/how-to/operation-policy.md", "who may say what operations may do",
				"make demo-allocation", "a machine goes from one tenant to the next",
			}
		})
}
