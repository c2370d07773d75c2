//go:build linux

package realzk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// jars is the class path for Debian's package. The manifest of ZooKeeper's own jar names all other jars, but not these.
var jars = []string{
	"zookeeper.jar", "slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar",
	"netty-transport-native-unix-common.jar",
}

// classPath returns the servers' class path: Debian's package, or the installation that the environment variable ZOOKEEPER_HOME names. The
// variable names an unpacked distribution (apache-zookeeper-3.9.5-bin), a directory of jars, or the sources after "mvn package".
func classPath() (classes []string, err error) {
	home := os.Getenv("ZOOKEEPER_HOME")
	if home == "" {
		for _, j := range jars {
			p := filepath.Join("/usr/share/java", j)
			if _, err := os.Stat(p); err == nil {
				classes = append(classes, p)
			}
		}
		if len(classes) == 0 || !strings.HasSuffix(classes[0], "/zookeeper.jar") {
			return nil, fmt.Errorf("/usr/share/java/zookeeper.jar is not there, which this test needs; install it with: %s, or let ZOOKEEPER_HOME name a distribution", install)
		}
		return classes, nil
	}
	for _, at := range []string{"", "lib", "zookeeper-server/target", "zookeeper-server/target/lib", "zookeeper-jute/target"} {
		found, _ := filepath.Glob(filepath.Join(home, at, "*.jar")) // fails for a malformed pattern only
		classes = append(classes, found...)
	}
	classes = slices.DeleteFunc(classes, func(jar string) bool { // leave out the jars of a source tree that a server does not run
		return strings.HasSuffix(jar, "-sources.jar") || strings.HasSuffix(jar, "-javadoc.jar") || strings.HasSuffix(jar, "-tests.jar")
	})
	if !slices.ContainsFunc(classes, func(jar string) bool { return serverJar.MatchString(filepath.Base(jar)) }) {
		return nil, fmt.Errorf("ZOOKEEPER_HOME=%s has no zookeeper.jar or zookeeper-VERSION.jar, nor has lib in it: name an unpacked distribution of Apache ZooKeeper, or a directory of its jars", home)
	}
	return classes, nil
}

var serverJar = regexp.MustCompile(`^zookeeper(-[0-9][^/]*)?\.jar$`)

// logConfigs are the configuration files of distributions' loggers: logback since 3.8, log4j before. Debian's package has neither,
// and logs by itself.
var logConfigs = map[string]string{
	"logback.xml": `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d{HH:mm:ss.SSS} [%t] %level %logger{5} - %m%n</pattern></encoder></appender><root level="INFO"><appender-ref ref="out"/></root></configuration>
`,
	"log4j.properties": `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} [%t] %p %c{1} - %m%n
`,
}
