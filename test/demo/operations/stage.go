package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/hostler/hostler/test/lab"
)

const (
	stageModel = "model.artifact.stage@v1"
	modelFile  = "/var/lib/models/llm.safetensors"
)

func (d *demo) stageInputs() (string, error) {
	return d.inputs("model", map[string]any{
		"bucket": "models", "source": "models/llm.safetensors", "digest": d.source.Digest(), "name": "llm.safetensors",
	})
}

func (d *demo) stage(ctx context.Context) error {
	key := d.Lab.Path("s3.key")
	if err := os.WriteFile(key, []byte("of-the-bucket-alone\n"), 0o600); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 6, "source-credential", "set", "models", "--source", "s3:models", "--endpoint", "https://"+lab.SourceName,
		"--region", "eu-1", "--key-id", "AKSITE", "--secret-file", key, "--reason", "our models"); err != nil {
		return err
	}
	file, err := d.stageInputs()
	if err != nil {
		return err
	}
	d.Say("The source will cut the connection after a third of the file, and then take the address no longer.")
	if d.staged, err = d.runs(ctx, stageModel, file, "the new model"); err != nil {
		return err
	}
	if err := d.transfer(); err != nil {
		return err
	}
	digest, err := d.InGuest(ctx, "sha256sum", modelFile)
	if err != nil {
		return err
	}
	if digest != strings.TrimPrefix(d.source.Digest(), "sha256:")+"  "+modelFile {
		return fmt.Errorf("on the machine is %s", digest)
	}
	job, err := d.asks(ctx, "srun", "--nodes=1", "--chdir=/tmp", "/usr/bin/sha256sum", modelFile)
	if err != nil {
		return err
	}
	if job != digest {
		return fmt.Errorf("a job reads %q", job)
	}
	d.Saw("a job of the cluster's reads the staged file, and its digest is that of the source")
	return nil
}

// transfer judges what the source has seen: a request that was cut, one with the same address that was
// refused, and one with a new address from the byte on at which the first was cut.
func (d *demo) transfer() error {
	asked, sent := d.source.Asked, d.source.Sent
	for i, r := range asked {
		answer := "sent"
		if r.Refused {
			answer = "refused: the address has expired"
		}
		d.Say("request %d: address …%.8s, %s: %s", i+1, r.Signature, beginOf(r.Begin), answer)
	}
	d.Say("The file has %d bytes, and the source has sent %d.", modelSize, sent)
	if len(asked) != 3 || asked[0].Refused || !asked[1].Refused || asked[2].Refused || asked[0].Signature != asked[1].Signature ||
		asked[2].Signature == asked[0].Signature || asked[1].Begin == "" || asked[2].Begin != asked[1].Begin || sent != modelSize {
		return fmt.Errorf("the source sent %d bytes to %+v", sent, asked)
	}
	d.Saw("the connection was cut and the address expired; with a new address the pull went on at the same byte, and no byte was sent twice")
	return nil
}

func beginOf(header string) string {
	if header == "" {
		return "from the first byte"
	}
	return header
}
