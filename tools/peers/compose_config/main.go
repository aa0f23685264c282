// Compose_config prints the project that a Compose file describes, as `docker compose config
// --format json` does, by the library that Docker Compose itself reads files with: checked against
// the schema, references and paths resolved, environment files read.
//
//	compose-config compose.yaml
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	text, err := config(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(text))
}

func config(files []string) ([]byte, error) {
	options, err := cli.NewProjectOptions(
		files, cli.WithOsEnv, cli.WithDotEnv, cli.WithDiscardEnvFile)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalJSON()
}
