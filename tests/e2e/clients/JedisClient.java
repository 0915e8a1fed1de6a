// SPDX-License-Identifier: Apache-2.0
// Jedis: java -cp 'jars/*' JedisClient.java PORT. Ends with status 0 when all of it held.
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;

public class JedisClient {
    static ProtocolCommand command(String name) {
        return () -> name.getBytes(StandardCharsets.UTF_8);
    }

    static Object text(Object answer) {
        if (answer instanceof byte[] bytes)
            return new String(bytes, StandardCharsets.UTF_8);
        if (answer instanceof List<?> list)
            return Arrays.asList(list.stream().map(JedisClient::text).toArray());
        return answer;
    }

    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want))
            throw new AssertionError("got " + got + ", not " + want);
    }

    static void all(int port, RedisProtocol protocol) {
        String ns = "jedis-" + protocol;
        var config = DefaultJedisClientConfig.builder().protocol(protocol).clientName("jedis").build();
        try (Jedis jedis = new Jedis(new HostAndPort("127.0.0.1", port), config)) {
            var begun = (List<?>) text(
                jedis.sendCommand(command("ONCE.BEGIN"), ns, "a", "FP", "100 EUR"));
            equal(begun.get(0), "EXECUTE");
            String fence = begun.get(1).toString();
            equal(text(jedis.sendCommand(command("ONCE.COMPLETE"), ns, "a", fence, "201", "ch_1")), "OK");
            equal(text(jedis.sendCommand(command("ONCE.BEGIN"), ns, "a", "FP", "100 EUR")),
                  List.of("REPLAY", 201L, "ch_1"));
            try {
                jedis.sendCommand(command("ONCE.COMPLETE"), ns, "none", "1", "201", "x");
                throw new AssertionError("completed what was never begun");
            } catch (JedisDataException error) {
                equal(error.getMessage().startsWith("NOTFOUND"), true);
            }

            equal(jedis.set(ns, "mine", SetParams.setParams().nx().ex(60)), "OK");
            equal(jedis.set(ns, "theirs", SetParams.setParams().nx().ex(60)), null);
            equal(jedis.get(ns), "mine");
            equal(jedis.mget(ns, ns + "-none"), Arrays.asList("mine", null));

            try (Pipeline pipeline = jedis.pipelined()) {
                Response<?>[] answers = new Response<?>[300];
                for (int i = 0; i < answers.length; i++)
                    answers[i] = pipeline.set(ns + i, "" + i, SetParams.setParams().nx().ex(60));
                pipeline.sync();
                for (Response<?> answer : answers)
                    equal(answer.get(), "OK");
            }
            equal(jedis.del(ns), 1L);
        }
        System.out.println("Jedis " + protocol + ": all held");
    }

    public static void main(String[] args) {
        all(Integer.parseInt(args[0]), RedisProtocol.RESP2);
        all(Integer.parseInt(args[0]), RedisProtocol.RESP3);
    }
}
